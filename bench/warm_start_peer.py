#!/usr/bin/env python3
"""What torch.compile's first call takes: with an empty cache, and with what another process left there.

    python3 bench/warm_start_peer.py    (a Python with torch 2.11; beside build/bench/warm_start)

Each line is a process of its own. Seconds of the first call beyond eager's, without the import of torch.
"""

import json
import os
import subprocess
import sys
import tempfile
import time


def functions():
    import torch

    x, w = torch.randn(512, 1024), torch.randn(1024)
    q, k = torch.randn(1, 4, 16, 64), torch.randn(1, 4, 16, 64)
    cos, sin = torch.randn(16, 64), torch.randn(16, 64)

    def swish_norm(x, w):
        y = x * torch.sigmoid(x)
        return y * torch.rsqrt((y * y).mean(-1, True) + 1e-6) * w + x

    def rotated(x):
        a, b = x.chunk(2, -1)
        return torch.cat((-b, a), -1)

    def tiny_rope(q, k, cos, sin):
        return q * cos + rotated(q) * sin, k * cos + rotated(k) * sin

    def softmax(x, m):
        return torch.softmax(x * 0.125 + m, -1)

    return {
        "swish_norm": (swish_norm, (x, w)),
        "tiny_rope": (tiny_rope, (q, k, cos, sin)),
        "softmax": (softmax, (torch.randn(8, 512, 512), torch.randn(512, 512))),
    }


def child(name):
    import torch

    torch.set_grad_enabled(False)
    function, arguments = functions()[name]
    for _ in range(3):
        begin = time.perf_counter()
        function(*arguments)
        eager = time.perf_counter() - begin
    begin = time.perf_counter()
    torch.compile(function)(*arguments)
    print(json.dumps(time.perf_counter() - begin - eager))


if len(sys.argv) == 2:
    child(sys.argv[1])
else:
    with tempfile.TemporaryDirectory() as cache:
        environment = dict(os.environ, TORCHINDUCTOR_CACHE_DIR=cache, TRITON_CACHE_DIR=cache)
        print(f"{'':12} {'empty cache':>12} {'warm':>8}  s")
        for name in ("swish_norm", "tiny_rope", "softmax"):
            times = [
                json.loads(subprocess.run([sys.executable, __file__, name], env=environment, capture_output=True, check=True).stdout)
                for _ in range(2)
            ]
            print(f"{name:12} {times[0]:12.2f} {times[1]:8.2f}")
