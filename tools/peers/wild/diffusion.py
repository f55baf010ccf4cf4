"""Diffusion models: a sampler's step, conditioning, transformers' blocks."""

import math

import torch
import torch.nn.functional as F

from .draw import integers, uniform, wide


def thresholded_step(x, predicted, alphas, now, next):
    without, prompted = predicted.chunk(2)
    guided = without + 6 * (prompted - without)

    def deviation(t):
        return t.std((1, 2, 3), unbiased=True, keepdim=True)

    velocity = guided * (0.7 * deviation(prompted) / deviation(guided) + 0.3)
    alpha = alphas.index_select(0, now).view(-1, 1, 1, 1)
    beyond = alphas.index_select(0, next).view(-1, 1, 1, 1)
    signal, noise = alpha.sqrt(), (1 - alpha).sqrt()
    image = signal * x - noise * velocity
    limit = torch.quantile(image.abs().flatten(1), 0.995, 1).clamp_min(1).view(-1, 1, 1, 1)
    image = torch.clamp(image, -limit, limit).div_(limit)
    return beyond.sqrt() * image + (1 - beyond).sqrt() * ((x - signal * image) / noise)


def time_embedding(times, classes, dropped, table, w1, b1, w2, b2):
    half = w1.shape[1] // 2
    frequencies = torch.exp(torch.arange(half, dtype=times.dtype) * (-math.log(10000) / half))
    angles = times[:, None] * frequencies
    waves = torch.cat([angles.cos(), angles.sin()], 1)
    embedded = F.linear(F.silu(F.linear(waves, w1, b1)), w2, b2)
    row = torch.where(dropped, len(table) - 1, classes)
    return F.silu(embedded + F.embedding(row, table))


def modulation_backward(by_y, by_h, x, branch, gate, scale):
    g, residual = wide(by_h), wide(by_y)
    variance, mean = torch.var_mean(wide(x), -1, unbiased=False, keepdim=True)
    inverse = torch.rsqrt(variance + 1e-6)
    normal = (wide(x) - mean) * inverse
    inner = g * (1 + wide(scale))[:, None]
    along = (inner * normal).mean(-1, keepdim=True)
    by_x = inverse * (inner - inner.mean(-1, keepdim=True) - normal * along)
    of_rows = (residual * wide(branch)).sum(1), (g * normal).sum(1), g.sum(1)
    return (by_x + residual).to(x.dtype), by_y * gate[:, None], *of_rows


def joint_attention(image, text, image_in, text_in, image_norms, text_norms, image_out, text_out, gates):
    size = image_norms.shape[1]

    def normal(x, weight):
        f = wide(x)
        return (f * torch.rsqrt(f.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * weight

    def projected(x, weight, norms):
        parts = F.linear(x, weight).view(*x.shape[:2], 3, -1, size).permute(2, 0, 3, 1, 4)
        return normal(parts[0], norms[0]), normal(parts[1], norms[1]), parts[2]

    both = zip(projected(text, text_in, text_norms), projected(image, image_in, image_norms))
    q, k, v = (torch.cat(parts, 2) for parts in both)
    attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
    to_text, to_image = attended.split([text.shape[1], image.shape[1]], 1)
    return (
        image + gates[:, 0, None] * F.linear(to_image, image_out),
        text + gates[:, 1, None] * F.linear(to_text, text_out),
    )


def thresholded_step_case(batch=4, side=64):
    alphas = (1 - torch.linspace(1e-4, 0.02, 1000)).cumprod(0)
    next = 20 + integers((batch,), 960)
    x, predicted = torch.randn(batch, 3, side, side), torch.randn(2 * batch, 3, side, side)
    return thresholded_step, (x, predicted, alphas, next + 20, next)


def time_embedding_case(batch=8, half=64, width=256, classes=1000):
    chosen, dropped = integers((batch,), classes), uniform((batch,)) < 0.1
    first = torch.randn(width, 2 * half) * 0.05, torch.randn(width)
    second = torch.randn(width, width) * 0.05, torch.randn(width)
    table = torch.randn(classes + 1, width)
    return time_embedding, (uniform((batch,), 0, 1000), chosen, dropped, table, *first, *second)


def modulation_backward_case(batch=12, tokens=256, width=768):
    rows = [torch.randn(batch, tokens, width).bfloat16() for _ in range(4)]
    gate, scale = torch.randn(batch, width).bfloat16(), (torch.randn(batch, width) * 0.3).bfloat16()
    return modulation_backward, (*rows, gate, scale)


def joint_attention_case(batch=1, image=36, text=12, heads=4, size=32):
    width = heads * size
    tokens = [torch.randn(batch, count, width).bfloat16() for count in (image, text)]
    into = [(torch.randn(3 * width, width) / math.sqrt(width)).bfloat16() for _ in range(2)]
    norms = [torch.randn(2, size).bfloat16() for _ in range(2)]
    out = [(torch.randn(width, width) / math.sqrt(width)).bfloat16() for _ in range(2)]
    return joint_attention, (*tokens, *into, *norms, *out, torch.randn(batch, 2, width).bfloat16())


CASES = {
    "thresholded_step_f32": (thresholded_step_case, {}),
    "time_embedding_f32": (time_embedding_case, {}),
    "modulation_backward_bf16": (modulation_backward_case, {}),
    "joint_attention_bf16": (joint_attention_case, {}),
}
