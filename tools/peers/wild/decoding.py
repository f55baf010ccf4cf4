"""Decoding: what a language model's server computes around its matrix products."""

import math

import torch
import torch.nn.functional as F

from .draw import integers, uniform, wide

EPSILON = 3e-4


def eta_sample(logits, previous, temperature, banned, noise):
    scores = wide(logits)
    ones = torch.ones(previous.shape, dtype=scores.dtype)
    counts = torch.zeros_like(scores).scatter_add_(1, previous, ones)
    scores = scores - 0.2 * counts - 0.5 * (counts > 0).to(scores.dtype)
    scores.masked_fill_(banned, -math.inf).div_(temperature)
    log_p = torch.log_softmax(scores, -1)
    p = log_p.exp()
    entropy = -(p * log_p.clamp_min(-1e30)).sum(-1, keepdim=True)
    eta = (math.sqrt(EPSILON) * (-entropy).exp()).clamp_max(EPSILON)
    out = (p < eta) & (p < p.amax(-1, keepdim=True))
    kept = p.masked_fill(out, 0)
    kept = kept / kept.sum(-1, keepdim=True)
    token = (kept / noise).argmax(-1, keepdim=True)
    return token.squeeze(1), kept.gather(1, token).log().squeeze(1), entropy.squeeze(1)


def cache_step(query, key, value, key_codes, key_scales, value_codes, value_scales, lengths):
    batch, heads, positions, width = key_codes.shape
    place = lengths.view(-1, 1, 1, 1)

    def store(x, codes, scales):
        row = wide(x)[:, :, None]
        scale = row.abs().amax(-1, keepdim=True).clamp_min(1e-8) / 127
        code = (row / scale).round().clamp(-127, 127).to(torch.int8)
        codes.scatter_(2, place.expand(batch, heads, 1, width), code)
        scales.scatter_(2, place.expand(batch, heads, 1, 1), scale)

    store(key, key_codes, key_scales)
    store(value, value_codes, value_scales)
    keys = (key_codes * key_scales).to(query.dtype)
    values = (value_codes * value_scales).to(query.dtype)
    scores = wide(query @ keys.transpose(-1, -2)) * (1 / math.sqrt(width))
    later = torch.arange(positions) > place
    weights = torch.softmax(scores.masked_fill(later, -math.inf), -1)
    return weights.to(query.dtype) @ values


def top2_gating(x, logits, capacity):
    tokens, experts = logits.shape
    p = torch.softmax(logits, 1)
    first = F.one_hot(p.argmax(1), experts)
    second = F.one_hot(p.masked_fill(first.bool(), 0).argmax(1), experts)
    places1 = first.cumsum(0) - 1
    places2 = second.cumsum(0) - 1 + first.sum(0, keepdim=True)
    balance = (p.mean(0) * first.to(p.dtype).mean(0)).sum() * experts
    first = first * (places1 < capacity)
    second = second * (places2 < capacity)
    gate1, gate2 = (p * first).sum(1), (p * second).sum(1)
    total = (gate1 + gate2).clamp_min(1e-9)

    def spread(gate, mask, places):
        slot = F.one_hot((places * mask).sum(1), capacity).to(p.dtype)
        return ((gate / total)[:, None] * mask)[:, :, None] * slot[:, None]

    combine = spread(gate1, first, places1) + spread(gate2, second, places2)
    dispatch = (combine > 0).to(x.dtype)
    gathered = dispatch.view(tokens, -1).t() @ x
    return combine, gathered.view(experts, capacity, -1), balance


def contrastive_search(logits, context, candidates):
    batch, count, _ = candidates.shape
    probability, tokens = torch.softmax(logits, -1).topk(count, -1)
    repeated = context.repeat_interleave(count, 0)
    following = candidates.view(batch * count, 1, -1)
    unit = repeated / repeated.norm(2, -1, keepdim=True)
    next_unit = following / following.norm(2, -1, keepdim=True)
    cosine = (unit @ next_unit.transpose(1, 2)).squeeze(-1)
    penalty = cosine.amax(-1).view(batch, count)
    score, choice = (0.4 * probability - 0.6 * penalty).max(-1, keepdim=True)
    index = choice[:, :, None].expand(batch, 1, candidates.shape[2])
    hidden = torch.cat([context, candidates.gather(1, index)], 1)
    return tokens.gather(1, choice).squeeze(1), hidden, score.squeeze(1)


def eta_sample_case(batch=64, vocabulary=32000, previous=256):
    logits, before = (torch.randn(batch, vocabulary) * 3).bfloat16(), integers((batch, previous), vocabulary)
    temperature, banned = uniform((batch, 1), 0.5, 1.2), uniform((vocabulary,)) < 0.01
    noise = (-uniform((batch, vocabulary)).log1p_().neg_()).clamp_min(1e-10)
    return eta_sample, (logits, before, temperature, banned, noise)


def cache_step_case(batch=4, heads=8, group=4, positions=512, width=128):
    query = torch.randn(batch, heads, group, width).bfloat16()
    key, value = (torch.randn(batch, heads, width).bfloat16() for _ in range(2))
    shape = batch, heads, positions
    cache = [part for _ in range(2) for part in (codes(shape + (width,)), uniform(shape + (1,), 0.01, 0.03))]
    lengths = positions // 2 + integers((batch,), positions - positions // 2)
    return cache_step, (query, key, value, *cache, lengths)


def codes(shape):
    return (integers(shape, 255) - 127).to(torch.int8)


def top2_gating_case(tokens=128, experts=8, capacity=32, width=128):
    return top2_gating, (torch.randn(tokens, width), torch.randn(tokens, experts), capacity)


def contrastive_search_case(batch=8, candidates=4, length=384, width=768, vocabulary=32000):
    context, following = torch.randn(batch, length, width), torch.randn(batch, candidates, width)
    return contrastive_search, (torch.randn(batch, vocabulary) * 3, context, following)


CASES = {
    "eta_sample_bf16": (eta_sample_case, {}),
    "cache_step_bf16": (cache_step_case, {}),
    "top2_gating_f32": (top2_gating_case, {}),
    "contrastive_search_f32": (contrastive_search_case, {}),
}
