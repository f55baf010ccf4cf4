#!/usr/bin/env python3
"""The peer: torch.compile (Inductor, CPU) on the regions of workloads/regions.cpp, inputs of the same shapes.

usage: inductor.py [--threads N] [--min-time S] CASE...
       inductor.py [--threads N] [--min-time S] -        case names from standard input, until it ends

Prints one JSON line to begin with ({"torch": version} or {"error": why}) and one a case: samples of the compiled
function in milliseconds a call, eager Python's median, what the first call took, and how far the results are from
eager's. A case that fails is {"case", "error"}. `graft bench --peers` runs this in turns with its own cases; a fresh
TORCHINDUCTOR_CACHE_DIR makes the first calls cold ones.
"""

import argparse
import json
import os
import statistics
import sys
import time


def say(line):
    print(json.dumps(line), file=answers, flush=True)


# Compilers write to standard output too; answers keep the pipe to themselves.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

try:
    import torch
    import torch._inductor.metrics
    import torch.nn.functional as F
except ImportError as error:
    say({"error": f"'import torch' failed ({error})"})
    sys.exit(1)


def rope_tables(sequence, head_size, dtype):
    frequency = 1.0 / (10000 ** (torch.arange(0, head_size, 2).float() / head_size))
    angle = torch.outer(torch.arange(sequence).float(), frequency)
    both = torch.cat([angle, angle], -1)
    return both.cos().to(dtype), both.sin().to(dtype)


def rotate_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)


def rope(q, k, cos, sin):
    c, s = cos[None, None], sin[None, None]
    return q * c + rotate_half(q) * s, k * c + rotate_half(k) * s


def qkv_rope(qkv, cos, sin, heads=16):
    batch, sequence, width = qkv.shape
    q, k, v = qkv.view(batch, sequence, 3, heads, width // 3 // heads).permute(2, 0, 3, 1, 4).unbind(0)
    q, k = rope(q, k, cos, sin)
    return q.contiguous(), k.contiguous(), v.contiguous()


def rmsnorm_residual(x, r, w):
    h = x + r
    f = h.float()
    return h, (f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * w


def swiglu(gate, up):
    return F.silu(gate) * up


def softmax_mask(scores, mask):
    return torch.softmax(scores * 0.125 + mask, -1)


def component(x, V, mask, U):
    return ((x @ V) * mask) @ U


def gptq_block(W, Hinv, scale, zero):
    W = W.clone()
    Q, E, L = torch.zeros_like(W), torch.zeros_like(W), torch.zeros_like(W)
    for i in range(W.shape[1]):
        w, d = W[:, i], Hinv[i, i]
        q = torch.clamp(torch.round(w / scale) + zero, 0, 15)
        q = scale * (q - zero)
        Q[:, i] = q
        L[:, i] = (w - q) ** 2 / d**2
        e = (w - q) / d
        W[:, i:] -= e[:, None] * Hinv[i, i:][None, :]
        E[:, i] = e
    return Q, E, L


def adamw(parameters, gradients, first, second):
    out = []
    for p, g, m, v in zip(parameters, gradients, first, second):
        m = 0.9 * m + 0.1 * g
        v = 0.95 * v + 0.05 * g * g
        out += [p * (1 - 1e-5) - 1e-3 * (m / 0.1) / ((v / 0.05).sqrt() + 1e-8), m, v]
    return out


def rope_case(dtype, batch=2, heads=16, sequence=2048, head_size=128):
    q, k = (torch.randn(batch, heads, sequence, head_size).to(dtype) for _ in range(2))
    return rope, (q, k, *rope_tables(sequence, head_size, dtype))


def swiglu_case(dtype):
    return swiglu, tuple(torch.randn(4096, 5632).to(dtype) for _ in range(2))


def rmsnorm_case(dtype):
    x, r = (torch.randn(4096, 2048).to(dtype) for _ in range(2))
    return rmsnorm_residual, (x, r, torch.ones(2048).to(dtype))


def component_case():
    shapes = (2, 512, 768), (768, 1200), (2, 512, 1200), (1200, 768)
    x, V, mask, U = (torch.randn(shape) for shape in shapes)
    return component, (x, V, mask.uniform_(), U)


def gptq_case(rows=2048, columns=128):
    inputs = torch.randn(2 * columns, columns)
    hessian = inputs.T @ inputs / (2 * columns) + 0.01 * torch.eye(columns)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(hessian))
    W = torch.randn(rows, columns)
    Hinv = torch.linalg.cholesky(inverse, upper=True).contiguous()
    return gptq_block, (W, Hinv, W.abs().amax(1) / 8, torch.full((rows,), 8.0))


def adamw_case():
    return adamw, tuple([torch.rand(1024, 1024) for _ in range(8)] for _ in range(4))


BF16, F32 = torch.bfloat16, torch.float32
CASES = {
    "rope_f32": lambda: rope_case(F32),
    "rope_bf16": lambda: rope_case(BF16),
    "qkv_rope_bf16": lambda: (qkv_rope, (torch.randn(2, 2048, 6144).to(BF16), *rope_tables(2048, 128, BF16))),
    "rmsnorm_bf16": lambda: rmsnorm_case(BF16),
    "swiglu_bf16": lambda: swiglu_case(BF16),
    "swiglu_f32": lambda: swiglu_case(F32),
    "softmax_f32": lambda: (softmax_mask, (torch.randn(16, 1024, 1024), torch.randn(1024, 1024))),
    "component_f32": component_case,
    "gptq_block": gptq_case,
    "adamw_f32": adamw_case,
    "tiny_rope_f32": lambda: rope_case(F32, 1, 4, 16, 64),
}


def call_ms(function, args, calls=1):
    start = time.perf_counter()
    for _ in range(calls):
        function(*args)
    return (time.perf_counter() - start) * 1e3 / calls


def samples_ms(function, args, min_time, least=10, most=1000):
    """As lab/timer.cpp: a sample of a quick function is a batch of calls of at least 50 µs."""
    for _ in range(3):
        function(*args)
    batch = max(1, round(0.05 / max(call_ms(function, args), 1e-6) + 0.5))
    out, start = [], time.perf_counter()
    while len(out) < most and (len(out) < least or time.perf_counter() - start < min_time):
        out.append(call_ms(function, args, batch))
    return out


def difference(expected, got):
    """Whether all bits agree (NaNs counted equal), and the largest difference."""
    bitwise, largest = True, 0.0
    for a, b in zip(as_list(expected), as_list(got)):
        same_bits = a.contiguous().view(torch.uint8).equal(b.contiguous().view(torch.uint8))
        if same_bits or (a.isnan() == b.isnan()).all() and a.nan_to_num().equal(b.nan_to_num()):
            continue
        bitwise = False
        largest = max(largest, (a.double() - b.double()).abs().max().item())
    return bitwise, largest


def as_list(result):
    return [result] if isinstance(result, torch.Tensor) else list(result)


def measure(name, min_time):
    if name not in CASES:
        return {"case": name, "error": f"no case '{name}'; expected one of {', '.join(CASES)}"}
    torch._dynamo.reset()
    torch.manual_seed(0)
    function, args = CASES[name]()
    expected = function(*args)
    compiled = torch.compile(function)
    torch._inductor.metrics.reset()
    first_call_ms = call_ms(compiled, args)
    bitwise, largest = difference(expected, compiled(*args))
    samples = samples_ms(compiled, args, min_time)
    return {
        "case": name,
        "samples_ms": samples,
        "eager_python_ms": statistics.median(samples_ms(function, args, min_time)),
        "first_call_ms": first_call_ms,
        "compile_ms": max(0.0, first_call_ms - statistics.median(samples)),
        "kernels": torch._inductor.metrics.generated_kernel_count,
        "bitwise": bitwise,
        "max_abs_diff": largest,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--min-time", type=float, default=1.0)
    parser.add_argument("case", nargs="+")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    say({"torch": torch.__version__})
    names = (line.strip() for line in sys.stdin) if options.case == ["-"] else options.case
    for name in names:
        try:
            with torch.no_grad():
                say(measure(name, options.min_time))
        except Exception as error:  # one case's failure leaves the others
            say({"case": name, "error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main()
