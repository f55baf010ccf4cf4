"""How tokens see each other: positions, biases, token mixing without attention, routing."""

import math

import torch
import torch.nn.functional as F


def linear_bias(scores, slopes):
    position = torch.arange(scores.shape[-1], dtype=scores.dtype)
    distance = position[None, :] - position[:, None]
    biased = scores + slopes.view(-1, 1, 1) * distance
    return torch.softmax(biased.masked_fill(distance > 0, -math.inf), -1)


def bucket_bias(scores, table):
    length = scores.shape[-1]
    position = torch.arange(length)
    relative = position[None, :] - position[:, None]
    distance = relative.abs()
    far = 8 + (torch.log(distance.clamp_min(1).float() / 8) / math.log(16) * 8).long()
    bucket = (relative > 0).long() * 16 + torch.where(distance < 8, distance, far.clamp_max(15))
    bias = table.index_select(0, bucket.view(-1)).view(length, length, -1).permute(2, 0, 1)
    return torch.softmax(scores + bias, -1)


def rotate_pairs(x, cos, sin):
    pairs = x.view(*x.shape[:3], -1, 2)
    a, b = pairs[..., 0], pairs[..., 1]
    c, s = cos[:, None], sin[:, None]
    return torch.stack([a * c - b * s, b * c + a * s], -1).flatten(-2)


def attention_free(q, k, v):
    context = (torch.softmax(k, 1) * v).sum(1, keepdim=True)
    return torch.sigmoid(q) * context


def causal_convolution(x, weight, bias):
    length = x.shape[1]
    padded = F.pad(x, (0, 0, 3, 0))
    total = bias
    for i in range(4):
        total = total + padded[:, i : i + length] * weight[:, i]
    return F.silu(total)


def route(logits):
    tokens, experts = logits.shape
    p = torch.softmax(logits, -1)
    best, chosen = p.topk(2, -1)
    ones = torch.ones(2 * tokens, dtype=p.dtype)
    load = torch.zeros(experts, dtype=p.dtype).scatter_add_(0, chosen.view(-1), ones)
    balance = (load / tokens * p.mean(0)).sum() * experts
    return best / best.sum(-1, keepdim=True), chosen, balance


def linear_bias_case(heads=12, tokens=1024):
    slopes = 2.0 ** (-8.0 / heads * torch.arange(1, heads + 1).float())
    return linear_bias, (torch.randn(heads, tokens, tokens), slopes)


def bucket_bias_case(heads=8, tokens=1024):
    return bucket_bias, (torch.randn(heads, tokens, tokens), torch.randn(32, heads))


def rotate_pairs_case(batch=2, tokens=2048, heads=16, pairs=32):
    frequency = 10000.0 ** (torch.arange(pairs).float() / -pairs)
    angle = torch.outer(torch.arange(tokens).float(), frequency)
    return rotate_pairs, (torch.randn(batch, tokens, heads, 2 * pairs), angle.cos(), angle.sin())


def attention_free_case(batch=8, tokens=1024, width=512):
    return attention_free, tuple(torch.randn(batch, tokens, width) for _ in range(3))


def causal_convolution_case(batch=4, tokens=2048, width=1024):
    shapes = (batch, tokens, width), (width, 4), (width,)
    return causal_convolution, tuple(torch.randn(shape).bfloat16() for shape in shapes)


def route_case(tokens=65536, experts=64):
    return route, (torch.randn(tokens, experts),)


CASES = {
    "linear_bias_f32": (linear_bias_case, {}),
    "bucket_bias_f32": (bucket_bias_case, {}),
    "rotate_pairs_f32": (rotate_pairs_case, {}),
    "attention_free_f32": (attention_free_case, {}),
    "causal_convolution_bf16": (causal_convolution_case, {}),
    "route_f32": (route_case, {}),
}
