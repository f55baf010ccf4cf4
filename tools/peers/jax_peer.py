#!/usr/bin/env python3
"""The peer JAX (jax.jit, XLA on the CPU) on the regions of workloads/regions.cpp, inputs of the same shapes.

usage: jax_peer.py [--threads N] [--min-time S] CASE... [--config AXIS=VALUE...]
       jax_peer.py -        requests from standard input, as docs/peers.md says

Besides the protocol's fields an answer has the median of the same function op by op, without jit, which `bitwise` and
`max_abs_diff` are against. XLA makes its threads once: the first request's number holds for all.
"""

import os

import protocol

os.environ.setdefault("JAX_PLATFORMS", "cpu")
try:
    import jax
    import jax.numpy as jnp
    import numpy as np
except ImportError as error:
    protocol.absent("jax", "jax", error)


def rope_tables(sequence, head_size, dtype):
    frequency = 1.0 / (10000 ** (np.arange(0, head_size, 2, dtype=np.float32) / head_size))
    angle = np.outer(np.arange(sequence, dtype=np.float32), frequency)
    both = np.concatenate([angle, angle], -1)
    return jnp.asarray(np.cos(both), dtype), jnp.asarray(np.sin(both), dtype)


def rotate_half(x):
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([-b, a], -1)


def rope(q, k, cos, sin):
    c, s = cos[None, None], sin[None, None]
    return q * c + rotate_half(q) * s, k * c + rotate_half(k) * s


def qkv_rope(heads):
    def function(qkv, cos, sin):
        batch, sequence, width = qkv.shape
        q, k, v = qkv.reshape(batch, sequence, 3, heads, width // 3 // heads).transpose(2, 0, 3, 1, 4)
        q, k = rope(q, k, cos, sin)
        return q, k, v

    return function


def rmsnorm_residual(x, r, w):
    h = x + r
    f = h.astype(jnp.float32)
    return h, (f * jax.lax.rsqrt(jnp.mean(f**2, -1, keepdims=True) + 1e-5)).astype(x.dtype) * w


def swiglu(gate, up):
    return jax.nn.silu(gate) * up


def softmax_mask(scores, mask):
    return jax.nn.softmax(scores * 0.125 + mask, -1)


def component(x, V, mask, U):
    return ((x @ V) * mask) @ U


def gptq_block(W, Hinv, scale, zero):
    """As XLA likes it: a loop, not 128 copies of its body; columns before the i-th are masked, not cut off."""

    def column(i, state):
        W, Q, E, L = state
        w, d = W[:, i], Hinv[i, i]
        q = scale * (jnp.clip(jnp.round(w / scale) + zero, 0, 15) - zero)
        e = (w - q) / d
        row = jnp.where(jnp.arange(W.shape[1]) >= i, Hinv[i], 0)
        return W - e[:, None] * row, Q.at[:, i].set(q), E.at[:, i].set(e), L.at[:, i].set((w - q) ** 2 / d**2)

    zeros = jnp.zeros_like(W)
    return jax.lax.fori_loop(0, W.shape[1], column, (W, zeros, zeros, zeros))[1:]


def adamw(parameters, gradients, first, second):
    out = []
    for p, g, m, v in zip(parameters, gradients, first, second):
        m = 0.9 * m + 0.1 * g
        v = 0.95 * v + 0.05 * g * g
        out += [p * (1 - 1e-5) - 1e-3 * (m / 0.1) / (jnp.sqrt(v / 0.05) + 1e-8), m, v]
    return out


def normal(draw, *shape, dtype=jnp.float32):
    return jnp.asarray(draw.standard_normal(shape, np.float32), dtype)


def rope_case(draw, dtype, batch=2, heads=16, sequence=2048, head_size=128):
    q, k = (normal(draw, batch, heads, sequence, head_size, dtype=dtype) for _ in range(2))
    return rope, (q, k, *rope_tables(sequence, head_size, dtype))


def qkv_rope_case(draw, dtype, batch=2, heads=16, sequence=2048, head_size=128):
    qkv = normal(draw, batch, sequence, 3 * heads * head_size, dtype=dtype)
    return qkv_rope(heads), (qkv, *rope_tables(sequence, head_size, dtype))


def swiglu_case(draw, dtype, rows=4096, columns=5632):
    return swiglu, tuple(normal(draw, rows, columns, dtype=dtype) for _ in range(2))


def rmsnorm_case(draw, dtype, rows=4096, columns=2048):
    x, r = (normal(draw, rows, columns, dtype=dtype) for _ in range(2))
    return rmsnorm_residual, (x, r, jnp.ones(columns, dtype))


def softmax_case(draw, heads=16, sequence=1024):
    return softmax_mask, (normal(draw, heads, sequence, sequence), normal(draw, sequence, sequence))


def component_case(draw, batch=2, sequence=512, width=768, parts=1200):
    mask = jnp.asarray(draw.random((batch, sequence, parts), np.float32))
    return component, (normal(draw, batch, sequence, width), normal(draw, width, parts), mask, normal(draw, parts, width))


def gptq_case(draw, rows=2048, columns=128):
    inputs = draw.standard_normal((2 * columns, columns), np.float32)
    hessian = inputs.T @ inputs / (2 * columns) + 0.01 * np.eye(columns, dtype=np.float32)
    Hinv = jnp.asarray(np.linalg.cholesky(np.linalg.inv(hessian)).T, jnp.float32)
    W = normal(draw, rows, columns)
    return gptq_block, (W, Hinv, jnp.abs(W).max(1) / 8, jnp.full((rows,), 8.0))


def adamw_case(draw, side=1024):
    return adamw, tuple([jnp.asarray(draw.random((side, side), np.float32)) for _ in range(8)] for _ in range(4))


def attention(q, k, v):
    return jax.nn.softmax(q @ k.swapaxes(-2, -1) * q.shape[-1] ** -0.5, -1) @ v


def attention_case(draw, batch=2, heads=8, sequence=512, head_size=64):
    return attention, tuple(normal(draw, batch, heads, sequence, head_size) for _ in range(3))


def norm(x, w, b):
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * w + b


def block(heads):
    def run(x, w):
        batch, sequence, width = x.shape
        qkv = norm(x, w[0], w[1]) @ w[2].T + w[3]
        q, k, v = qkv.reshape(batch, sequence, 3, heads, width // heads).transpose(2, 0, 3, 1, 4)
        h = x + attention(q, k, v).swapaxes(1, 2).reshape(batch, sequence, width) @ w[4].T + w[5]
        return h + jax.nn.gelu(norm(h, w[6], w[7]) @ w[8].T + w[9], approximate=False) @ w[10].T + w[11]

    return run


def block_case(draw, batch=2, sequence=128, width=256, heads=8):
    ones = lambda: [jnp.ones(width), jnp.zeros(width)]
    linear = lambda to, of: [normal(draw, to, of) / of**0.5, normal(draw, to) * 0.02]
    attend = ones() + linear(3 * width, width) + linear(width, width)
    weights = attend + ones() + linear(4 * width, width) + linear(width, 4 * width)
    return block(heads), (normal(draw, batch, sequence, width), weights)


def recurrence(x, a, b):
    def step(h, now):
        h = a * h + b * now
        return h, h

    return jax.lax.scan(step, jnp.zeros_like(x[:, 0]), x.swapaxes(0, 1))[1].swapaxes(0, 1)


def recurrence_case(draw, batch=16, steps=128, width=512):
    a = jnp.asarray(draw.random(width, np.float32)) * 0.9
    return recurrence, (normal(draw, batch, steps, width), a, 1 - a)


def cholesky(matrices):
    """Column by column, as a loop: what lies before a column is masked, not cut off."""
    n = matrices.shape[-1]
    place = jnp.arange(n)

    def column(k, L):
        pivot = jnp.sqrt(L[:, k, k])
        below = jnp.where(place > k, L[:, :, k] / pivot[:, None], 0)
        L = L - below[:, :, None] * below[:, None, :]
        return L.at[:, :, k].set(jnp.where(place == k, pivot[:, None], jnp.where(place > k, below, L[:, :, k])))

    return jnp.tril(jax.lax.fori_loop(0, n, column, matrices))


def cholesky_case(draw, batch=64, side=64):
    x = normal(draw, batch, side, 2 * side)
    return cholesky, (x @ x.swapaxes(1, 2) / (2 * side) + 0.01 * jnp.eye(side),)


def codebook(carry):
    def run(W, codes):
        def step(error, column):
            w, code = column
            w = w + carry * error
            q = code[jnp.abs(w[:, None] - code[None, :]).argmin(1)]
            return w - q, q

        return jax.lax.scan(step, jnp.zeros_like(W[:, 0]), (W.T, codes))[1].T

    return run


def codebook_case(draw, rows=2048, columns=128, codes=16):
    return codebook(0.5), (normal(draw, rows, columns), jnp.sort(normal(draw, columns, codes), 1))


BF16, F32 = {"dtype": jnp.bfloat16}, {"dtype": jnp.float32}
CASES = {
    "rope_f32": (rope_case, F32),
    "rope_bf16": (rope_case, BF16),
    "qkv_rope_bf16": (qkv_rope_case, BF16),
    "rmsnorm_bf16": (rmsnorm_case, BF16),
    "swiglu_bf16": (swiglu_case, BF16),
    "swiglu_f32": (swiglu_case, F32),
    "softmax_f32": (softmax_case, {}),
    "component_f32": (component_case, {}),
    "gptq_block": (gptq_case, {}),
    "adamw_f32": (adamw_case, {}),
    "attention_f32": (attention_case, {}),
    "block_f32": (block_case, {}),
    "recurrence_f32": (recurrence_case, {}),
    "cholesky_f32": (cholesky_case, {}),
    "codebook_f32": (codebook_case, {}),
    "tiny_rope_f32": (rope_case, {**F32, "batch": 1, "heads": 4, "sequence": 16, "head_size": 64}),
}


def difference(expected, got):
    """Whether all bits agree (NaNs counted equal), and the largest difference."""
    bitwise, largest = True, 0.0
    for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(got)):
        a, b = np.asarray(a), np.asarray(b)
        if a.tobytes() == b.tobytes():
            continue
        a, b = a.astype(np.float64), b.astype(np.float64)
        if np.array_equal(a, b, equal_nan=True) and np.array_equal(np.signbit(a), np.signbit(b)):
            continue
        bitwise = False
        largest = max(largest, float(np.abs(a - b).max()))
    return bitwise, largest


started_with = None


def use_threads(threads):
    """XLA's CPU client reads NPROC when it starts, at the first array."""
    global started_with
    if started_with is None:
        started_with = threads
        os.environ["NPROC"] = str(threads)
    if threads != started_with:
        raise ValueError(f"threads: came {threads}, but XLA has started with {started_with}; start the peer anew")


def measure(request):
    make, fixed = protocol.find_case(CASES, request.case)
    arguments = protocol.sizes(make, fixed, request.config)
    use_threads(request.threads)
    jax.clear_caches()
    function, args = make(np.random.default_rng(0), **arguments)
    compiled = jax.jit(function)

    def call():
        jax.block_until_ready(compiled(*args))

    def eager():
        jax.block_until_ready(function(*args))

    first_call_ms = protocol.call_ms(call)
    bitwise, largest = difference(function(*args), compiled(*args))
    return protocol.measured(request, "jax", call, first_call_ms, eager, bitwise=bitwise, max_abs_diff=largest)


if __name__ == "__main__":
    protocol.run("jax", jax.__version__, measure, __doc__)
