#!/usr/bin/env python3
"""The peer torch.compile (Inductor, CPU) on the regions of workloads/regions.cpp and the sets `wild` (the folder wild),
`training` and `systems`, inputs of the same shapes.

usage: inductor.py [--threads N] [--min-time S] CASE... [--config AXIS=VALUE...]
       inductor.py -        requests from standard input, as docs/peers.md says

Besides the protocol's fields an answer has eager Python's median. `graft bench --peers` runs this in turns with its own
cases; a fresh TORCHINDUCTOR_CACHE_DIR makes the first calls cold ones.
"""

import protocol

try:
    import torch
    import torch._inductor.metrics
    import torch.nn.functional as F
except ImportError as error:
    protocol.absent("torch.compile", "torch", error)
import attention as attention_set  # needs torch
import decode as decode_set
import models as models_set
import systems  # needs torch
import training  # needs torch
import wild  # needs torch


def rotate_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)


def rope(q, k, cos, sin):
    c, s = cos[None, None], sin[None, None]
    return q * c + rotate_half(q) * s, k * c + rotate_half(k) * s


def qkv_rope(qkv, cos, sin, heads):
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
    return rope, (q, k, *training.rope_tables(sequence, head_size, dtype))


def qkv_rope_case(dtype, batch=2, heads=16, sequence=2048, head_size=128):
    qkv = torch.randn(batch, sequence, 3 * heads * head_size).to(dtype)
    return qkv_rope, (qkv, *training.rope_tables(sequence, head_size, dtype), heads)


def swiglu_case(dtype, rows=4096, columns=5632):
    return swiglu, tuple(torch.randn(rows, columns).to(dtype) for _ in range(2))


def rmsnorm_case(dtype, rows=4096, columns=2048):
    x, r = (torch.randn(rows, columns).to(dtype) for _ in range(2))
    return rmsnorm_residual, (x, r, torch.ones(columns).to(dtype))


def softmax_case(heads=16, sequence=1024):
    return softmax_mask, (torch.randn(heads, sequence, sequence), torch.randn(sequence, sequence))


def component_case(batch=2, sequence=512, width=768, parts=1200):
    shapes = (batch, sequence, width), (width, parts), (batch, sequence, parts), (parts, width)
    x, V, mask, U = (torch.randn(shape) for shape in shapes)
    return component, (x, V, mask.uniform_(), U)


def linear_gelu_case(dtype, rows=1024, in_features=1024, out_features=1024):
    layer = torch.nn.Sequential(torch.nn.Linear(in_features, out_features, dtype=dtype), torch.nn.GELU())
    return layer.requires_grad_(False), (torch.randn(rows, in_features).to(dtype),)


def gptq_case(rows=2048, columns=128):
    inputs = torch.randn(2 * columns, columns)
    hessian = inputs.T @ inputs / (2 * columns) + 0.01 * torch.eye(columns)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(hessian))
    W = torch.randn(rows, columns)
    Hinv = torch.linalg.cholesky(inverse, upper=True).contiguous()
    return gptq_block, (W, Hinv, W.abs().amax(1) / 8, torch.full((rows,), 8.0))


def adamw_case(side=1024):
    return adamw, tuple([torch.rand(side, side) for _ in range(8)] for _ in range(4))


def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5, -1) @ v


def attention_case(batch=2, heads=8, sequence=512, head_size=64):
    return attention, tuple(torch.randn(batch, heads, sequence, head_size) for _ in range(3))


def block(x, weights, heads):
    w, (batch, sequence, width) = weights, x.shape
    qkv = F.linear(F.layer_norm(x, (width,), w[0], w[1]), w[2], w[3])
    q, k, v = qkv.view(batch, sequence, 3, heads, width // heads).permute(2, 0, 3, 1, 4).unbind(0)
    mixed = attention(q, k, v).transpose(1, 2).reshape(batch, sequence, width)
    h = x + F.linear(mixed, w[4], w[5])
    up = F.gelu(F.linear(F.layer_norm(h, (width,), w[6], w[7]), w[8], w[9]))
    return h + F.linear(up, w[10], w[11])


def block_case(batch=2, sequence=128, width=256, heads=8):
    norm = lambda: [torch.ones(width), torch.zeros(width)]
    linear = lambda to, of: [torch.randn(to, of) / of**0.5, torch.randn(to) * 0.02]
    attend = norm() + linear(3 * width, width) + linear(width, width)
    weights = attend + norm() + linear(4 * width, width) + linear(width, 4 * width)
    return block, (torch.randn(batch, sequence, width), weights, heads)


def recurrence(x, a, b):
    states, h = torch.empty_like(x), torch.zeros_like(x[:, 0])
    for t in range(x.shape[1]):
        h = a * h + b * x[:, t]
        states[:, t] = h
    return states


def recurrence_case(batch=16, steps=128, width=512):
    a = torch.rand(width) * 0.9
    return recurrence, (torch.randn(batch, steps, width), a, 1 - a)


def cholesky(matrices):
    L = matrices.clone()
    n = L.shape[-1]
    for k in range(n):
        L[:, k, k].sqrt_()
        if k + 1 == n:
            break
        column = L[:, k + 1 :, k]
        column /= L[:, k, k][:, None]
        L[:, k + 1 :, k + 1 :] -= column[:, :, None] * column[:, None, :]
    return L.tril_()


def cholesky_case(batch=64, side=64):
    x = torch.randn(batch, side, 2 * side)
    return cholesky, (x @ x.transpose(1, 2) / (2 * side) + 0.01 * torch.eye(side),)


def codebook(W, codes, carry):
    rest, Q = W.clone(), torch.empty_like(W)
    for i in range(W.shape[1]):
        w, code = rest[:, i], codes[i]
        q = code[(w[:, None] - code[None, :]).abs().argmin(1)]
        Q[:, i] = q
        if i + 1 < W.shape[1]:
            rest[:, i + 1] += carry * (w - q)
    return Q


def codebook_case(rows=2048, columns=128, codes=16):
    return codebook, (torch.randn(rows, columns), torch.randn(columns, codes).sort(1).values, 0.5)


BF16, F32 = {"dtype": torch.bfloat16}, {"dtype": torch.float32}
CASES = {
    "rope_f32": (rope_case, F32),
    "rope_bf16": (rope_case, BF16),
    "qkv_rope_bf16": (qkv_rope_case, BF16),
    "rmsnorm_bf16": (rmsnorm_case, BF16),
    "swiglu_bf16": (swiglu_case, BF16),
    "swiglu_f32": (swiglu_case, F32),
    "softmax_f32": (softmax_case, {}),
    "component_f32": (component_case, {}),
    "linear_gelu_f32": (linear_gelu_case, F32),
    "linear_gelu_bf16": (linear_gelu_case, BF16),
    "gptq_block": (gptq_case, {}),
    "adamw_f32": (adamw_case, {}),
    "attention_f32": (attention_case, {}),
    "block_f32": (block_case, {}),
    "recurrence_f32": (recurrence_case, {}),
    "cholesky_f32": (cholesky_case, {}),
    "codebook_f32": (codebook_case, {}),
    "tiny_rope_f32": (rope_case, {**F32, "batch": 1, "heads": 4, "sequence": 16, "head_size": 64}),
    **wild.CASES,
    **training.CASES,
    **attention_set.CASES,
    **decode_set.CASES,
    **models_set.CASES,
    **systems.CASES,
}


def difference(expected, got):
    """Whether all bits agree (NaNs counted equal), and the largest difference."""
    bitwise, largest = True, 0.0
    for a, b in zip(expected, got):
        same_bits = a.reshape(-1).view(torch.uint8).equal(b.reshape(-1).view(torch.uint8))
        if same_bits or (a.isnan() == b.isnan()).all() and a.nan_to_num().equal(b.nan_to_num()):
            continue
        bitwise = False
        largest = max(largest, (a.double() - b.double()).abs().max().item())
    return bitwise, largest


def copy_of(argument):
    if isinstance(argument, torch.Tensor):
        return argument.detach().clone().requires_grad_(argument.requires_grad)
    return [copy_of(part) for part in argument] if isinstance(argument, list) else argument


def tensors_of(value):
    """The tensors of a result or of arguments, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for part in value for t in tensors_of(part)] if isinstance(value, (list, tuple)) else []


def outputs(function, args):
    """The results on copies of the arguments, then the arguments as the call left them."""
    own = [copy_of(argument) for argument in args]
    return tensors_of(function(*own)) + tensors_of(own)


def measure(request):
    make, fixed = protocol.find_case(CASES, request.case)
    arguments = protocol.sizes(make, fixed, request.config)
    torch.set_num_threads(request.threads)
    torch._dynamo.reset()
    torch.manual_seed(0)
    with torch.no_grad():
        function, args = make(**arguments)
        compiled = training.compiled(function)
        torch._inductor.metrics.reset()
        first_call_ms = protocol.call_ms(lambda: compiled(*args))
        bitwise, largest = difference(outputs(function, args), outputs(compiled, args))
        return protocol.measured(
            request,
            "torch.compile",
            lambda: compiled(*args),
            first_call_ms,
            lambda: function(*args),
            kernels=torch._inductor.metrics.generated_kernel_count,
            bitwise=bitwise,
            max_abs_diff=largest,
        )


if __name__ == "__main__":
    protocol.run("torch.compile", torch.__version__, measure, __doc__)
