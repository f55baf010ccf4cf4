"""Quantisers and what reads their codes."""

import math

import torch

from .draw import integers, uniform, wide

BLOCK = 64


def int8_rows(x):
    f = wide(x)
    scale = f.abs().amax(-1, keepdim=True).clamp_min(1e-5) / 127
    return (f / scale).round().clamp(-128, 127).to(torch.int8), scale


def nf4_quantise(weights, borders):
    blocks = weights.view(-1, BLOCK)
    largest = blocks.abs().amax(1, keepdim=True)
    codes = torch.bucketize(blocks / largest, borders).to(torch.uint8).view(-1, 2)
    return torch.bitwise_or(torch.bitwise_left_shift(codes[:, 0], 4), codes[:, 1]), largest


def nf4_dequantise(packed, levels, largest):
    codes = torch.stack([torch.bitwise_right_shift(packed, 4), torch.bitwise_and(packed, 15)], -1)
    values = levels.index_select(0, codes.view(-1).int())
    return (values.view(-1, BLOCK) * largest).to(largest.dtype).view(-1)


def int4_unpack(packed, scales, zeros):
    groups, columns = scales.shape
    shifts = torch.arange(0, 32, 4, dtype=torch.int32).view(1, 8, 1)
    codes = torch.bitwise_and(torch.bitwise_right_shift(packed[:, None], shifts), 15)
    grouped = codes.view(groups, -1, columns).to(scales.dtype)
    return ((grouped - zeros[:, None]) * scales[:, None]).view(-1, columns)


def ternary_pack(weights):
    scale = weights.abs().mean().clamp_min(1e-5)
    codes = ((weights / scale).round().clamp(-1, 1) + 1).to(torch.uint8)
    part = codes.view(weights.shape[0], -1, 4).unbind(-1)
    packed = part[0]
    for i in range(1, 4):
        packed = torch.bitwise_or(packed, torch.bitwise_left_shift(part[i], 2 * i))
    return packed, scale


def learned_step(x, gradient, step):
    v = x / step
    clamped = v.clamp(-8, 7)
    rounded = clamped.round()
    inside = (v >= -8).logical_and(v <= 7)
    by_step = torch.where(inside, rounded - v, clamped)
    scale = 1 / math.sqrt(7 * x.numel())
    return rounded * step, torch.where(inside, gradient, 0), (gradient * by_step).sum() * scale


def nf4_levels():
    below = [-1.0, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343, -0.09105004]
    above = [0.0, 0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.5626170, 0.72295684, 1.0]
    return torch.tensor(below + above)


def int8_rows_case(rows=2048, columns=4096):
    return int8_rows, (torch.randn(rows, columns).bfloat16(),)


def nf4_quantise_case(blocks=65536):
    levels = nf4_levels()
    return nf4_quantise, (torch.randn(BLOCK * blocks), (levels[1:] + levels[:-1]) / 2)


def nf4_dequantise_case(blocks=131072):
    packed = integers((BLOCK * blocks // 2,), 256, torch.uint8)
    return nf4_dequantise, (packed, nf4_levels(), uniform((blocks, 1), 0.01, 0.1).bfloat16())


def int4_unpack_case(groups=64, columns=2048):
    packed = integers((groups * BLOCK // 8, columns), 2**31).int()
    zeros = integers((groups, columns), 16).bfloat16()
    return int4_unpack, (packed, uniform((groups, columns), 0.01, 0.1).bfloat16(), zeros)


def ternary_pack_case(rows=2048, columns=512):
    return ternary_pack, (torch.randn(rows, 4 * columns) * 0.02,)


def learned_step_case(rows=2048, columns=2048):
    return learned_step, (torch.randn(rows, columns), torch.randn(rows, columns), torch.tensor(0.2))


CASES = {
    "int8_rows_bf16": (int8_rows_case, {}),
    "nf4_quantise_f32": (nf4_quantise_case, {}),
    "nf4_dequantise_bf16": (nf4_dequantise_case, {}),
    "int4_unpack_bf16": (int4_unpack_case, {}),
    "ternary_pack_f32": (ternary_pack_case, {}),
    "learned_step_f32": (learned_step_case, {}),
}
