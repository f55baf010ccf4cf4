"""The set `decode` (workloads/decoder/cases.cpp) for torch.compile: one token of a Llama behind a cache, the same code; codes of 8 or 4
bits are made numbers where they are used."""

import torch
import torch.nn.functional as F


def rms_norm(x, weight, eps=1e-5):
    wide = x.float()
    return weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


def dense(rows, columns, dtype):
    return (torch.randn(rows, columns) / columns**0.5).to(dtype)


def linear(x, weight, bits):
    if bits == 0:
        return F.linear(x, weight)
    codes, scale = weight
    rows, stored, size = codes.shape
    if bits == 8:
        return F.linear(x, (codes.float() * scale).view(rows, -1))
    x = x.view(x.shape[0], 2, stored * size)
    low = ((codes & 15).float() - 8) * scale[:, :stored]
    high = ((codes >> 4).float() - 8) * scale[:, stored:]
    return F.linear(x[:, 0], low.view(rows, -1)) + F.linear(x[:, 1], high.view(rows, -1))


def decode_case(dtype, bits):
    def case(layers=4, hidden=2048, heads=16, intermediate=4096, vocabulary=32000, context=512, group=128):
        def weight(rows, columns):
            if bits == 0:
                return dense(rows, columns, dtype)
            groups = columns // group
            if bits == 8:
                codes = torch.randint(-127, 127, (rows, groups, group), dtype=torch.int8)
            else:
                codes = torch.randint(0, 256, (rows, groups // 2, group), dtype=torch.uint8)
            return codes, torch.rand(rows, groups, 1) / 2**bits

        size = hidden // heads
        shapes = [(hidden, hidden)] * 4 + [(intermediate, hidden)] * 2 + [(hidden, intermediate)]
        weights = [[weight(*shape) for shape in shapes] for _ in range(layers)]
        norms = [[torch.rand(hidden).to(dtype) for _ in range(2)] for _ in range(layers)]
        head, norm = weight(vocabulary, hidden), torch.rand(hidden).to(dtype)
        keys, values = (torch.randn(layers, heads, context, size).to(dtype) for _ in range(2))
        angles = torch.arange(context)[:, None] / 10000 ** (torch.arange(0, size, 2) / size)
        angles = torch.cat((angles, angles), -1)
        cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)

        def layer(x, position, k_cache, v_cache, ws, ns):
            def split(t):
                return t.view(1, heads, size).transpose(0, 1)

            y = rms_norm(x, ns[0])
            turn = cos.index_select(0, position), sin.index_select(0, position)
            q = rotate(split(linear(y, ws[0], bits)), *turn)
            k_cache.index_copy_(1, position, rotate(split(linear(y, ws[1], bits)), *turn))
            v_cache.index_copy_(1, position, split(linear(y, ws[2], bits)))
            scores = q @ k_cache.transpose(1, 2) * size**-0.5
            seen = torch.arange(context) <= position[:, None]
            shares = torch.softmax(torch.where(seen, scores, -torch.inf), -1)
            x = x + linear((shares @ v_cache).transpose(0, 1).reshape(1, hidden), ws[3], bits)
            y = rms_norm(x, ns[1])
            return x + linear(F.silu(linear(y, ws[4], bits)) * linear(y, ws[5], bits), ws[6], bits)

        def token(x, position, keys, values):
            for k in range(layers):
                x = layer(x, position, keys[k], values[k], weights[k], norms[k])
            return linear(rms_norm(x, norm), head, bits)

        return token, (torch.randn(1, hidden).to(dtype), torch.tensor([context - 1]), keys, values)

    return case


CASES = {
    "decode_f32": (decode_case(torch.float32, 0), {}),
    "decode_bf16": (decode_case(torch.bfloat16, 0), {}),
    "decode_int8": (decode_case(torch.float32, 8), {}),
    "decode_int4": (decode_case(torch.float32, 4), {}),
}
