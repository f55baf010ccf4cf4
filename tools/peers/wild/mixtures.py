"""Mixtures: programs of many fields, from stereo cameras to forecasts, one of each."""

import math

import torch
import torch.nn.functional as F

from .draw import integers, uniform, wide


def convex_upsample(flow, mask):
    b, _, h, w = flow.shape
    weights = mask.view(b, 1, 9, 8, 8, h, w).softmax(2)
    near = F.unfold(8 * flow, (3, 3), padding=1).view(b, 2, 9, 1, 1, h, w)
    return (weights * near).sum(2).permute(0, 1, 4, 2, 5, 3).reshape(b, 2, 8 * h, 8 * w)


def edit_distance(one, other, one_lengths, other_lengths):
    batch, length = one.shape
    places = torch.arange(length + 1, dtype=one.dtype)
    row = places.expand(batch, length + 1)
    for i in range(length):
        differs = (other != one[:, i, None]).int()
        changed = torch.minimum(row[:, :length] + differs, row[:, 1:] + 1)
        first = torch.full((batch, 1), i + 1, dtype=one.dtype)
        following = (torch.cat([first, changed], 1) - places).cummin(1).values + places
        row = torch.where((one_lengths > i)[:, None], following, row)
    return row.gather(1, other_lengths[:, None]).squeeze(1)


def beamformer(real, imaginary, places, frequencies, angles):
    microphones, snapshots = real.shape[1:]
    x = torch.complex(real, imaginary)
    covariance = x @ x.mH / snapshots
    loaded = covariance + 0.1 * torch.eye(microphones)
    phases = 2 * math.pi * frequencies[:, None, None] * (angles.sin()[:, None] * places / 343)
    steering = torch.polar(torch.ones_like(phases), phases)

    def along(matrix):
        return torch.einsum("fam,fmn,fan->fa", steering.conj(), matrix, steering).real

    return along(covariance) / microphones**2, along(torch.linalg.inv(loaded)).reciprocal()


def census(image):
    height, width = image.shape
    padded, code = F.pad(image, (2, 2, 2, 2)), torch.zeros(height, width, dtype=torch.int32)
    for dy in range(5):
        for dx in range(5):
            if (dy, dx) != (2, 2):
                other = padded[dy : dy + height, dx : dx + width]
                code = (code * 2) | (other < image).int()
    return code


def count_bits(x):
    x = x - ((x >> 1) & 0x55555555)
    x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F
    x = x + (x >> 8)
    return (x + (x >> 16)) & 0x3F


def stereo_match(left, right, shifts):
    height, width = left.shape
    l, r = census(left), census(right)
    costs = torch.full((shifts, height, width), 24.0)
    for d in range(shifts):
        costs[d, :, d:] = count_bits(l[:, d:] ^ r[:, : width - d])
    sums = F.avg_pool2d(costs[:, None], 5, 1, 2, divisor_override=1).squeeze(1)
    best = sums.argmin(0, keepdim=True)
    here, before = sums.gather(0, best), sums.gather(0, (best - 1).clamp_min(0))
    after = sums.gather(0, (best + 1).clamp_max(shifts - 1))
    curve = before + after - 2 * here
    inside = (best > 0) & (best < shifts - 1) & (curve > 0)
    offset = torch.where(inside, (before - after) / (2 * curve), 0)
    return (16 * (best + offset)).round().short().squeeze(0)


def merge_tokens(x, keys, sizes, count):
    unit = keys / keys.norm(2, -1, keepdim=True)
    scores = unit[:, ::2] @ unit[:, 1::2].transpose(-1, -2)
    scores[:, 0].fill_(-math.inf)  # the class's token stays
    best, partner = scores.max(-1)
    order = best.argsort(-1, descending=True)[..., None]
    gone, kept = order[:, :count], order[:, count:].sort(1).values
    to = partner[..., None].gather(1, gone)

    def merge(t):
        def spread(index):
            return index.expand(t.shape[0], -1, t.shape[2])

        rest, moved = t[:, ::2].gather(1, spread(kept)), t[:, ::2].gather(1, spread(gone))
        return torch.cat([rest, t[:, 1::2].scatter_add(1, spread(to), moved)], 1)

    merged = merge(sizes)
    return merge(x * sizes) / merged, merged


def latent_attention(query, rotated, cache, rotated_keys, lengths, to_key, to_value):
    scale = 1 / math.sqrt(query.shape[2] + rotated.shape[2])
    absorbed = torch.einsum("bhd,hdc->bhc", query, to_key)
    scores = torch.einsum("bhc,blc->bhl", absorbed, cache) + torch.einsum("bhr,blr->bhl", rotated, rotated_keys)
    absent = torch.arange(cache.shape[1]) >= lengths[:, None, None]
    weights = (wide(scores) * scale).masked_fill(absent, -math.inf).softmax(-1).to(cache.dtype)
    mixed = torch.einsum("bhl,blc->bhc", weights, cache)
    return torch.einsum("bhc,hcd->bhd", mixed, to_value).flatten(1)


def chunk_scan(x, decay, into, out, length):
    b, tokens, h, _ = x.shape
    chunks = tokens // length
    v = x.view(b, chunks, length, h, -1)
    i, o = into.view(b, chunks, length, -1), out.view(b, chunks, length, -1)
    sums = decay.view(b, chunks, length, h).permute(0, 3, 1, 2).cumsum(-1)
    later = torch.ones(length, length, dtype=torch.bool).triu(1)
    within = (sums[..., None] - sums[..., None, :]).masked_fill(later, -math.inf).exp()
    own = torch.einsum("bcln,bcsn,bhcls,bcshp->bclhp", o, i, within, v)
    last = sums[..., length - 1 :]
    states = torch.einsum("bcln,bhcl,bclhp->bchpn", i, (last - sums).exp(), v)
    state, before = torch.zeros_like(states[:, 0]), []
    for c in range(chunks):
        before.append(state)
        state = state * last[:, :, c].exp()[..., None] + states[:, c]
    carried = torch.einsum("bcln,bchpn,bhcl->bclhp", o, torch.stack(before, 1), sums.exp())
    return (own + carried).reshape(x.shape)


def late_interaction(query, documents, lengths):
    there = torch.arange(documents.shape[1]) < lengths[:, None]
    best = (documents @ query.t()).masked_fill(there.logical_not()[..., None], -9999).amax(1)
    scores = wide(best).sum(-1)
    return scores, scores.topk(10).values


def kepler(axis, eccentricity, tilt, node, periapsis, mean):
    m = torch.remainder(mean, 2 * math.pi)
    e = m + eccentricity * m.sin()
    for _ in range(8):
        error = e - eccentricity * e.sin() - m
        e = e - error / (1 - eccentricity * e.cos())
    x, y = axis * (e.cos() - eccentricity), axis * (1 - eccentricity.square()).sqrt() * e.sin()
    cn, sn, cp, sp, ct, st = node.cos(), node.sin(), periapsis.cos(), periapsis.sin(), tilt.cos(), tilt.sin()
    places = [
        x * (cn * cp - sn * sp * ct) - y * (cn * sp + sn * cp * ct),
        x * (sn * cp + cn * sp * ct) - y * (sn * sp - cn * cp * ct),
        x * (sp * st) + y * (cp * st),
    ]
    return torch.stack(places, 1)


def guided_filter(guide, image, radius):
    height, width = guide.shape[2:]

    def small(t):
        return F.interpolate(t, (height // 4, width // 4), mode="bilinear")

    def mean(t):
        return F.avg_pool2d(t, 2 * radius + 1, 1, radius, count_include_pad=False)

    def large(t):
        return F.interpolate(mean(t), (height, width), mode="bilinear")

    g, p = small(guide), small(image)
    mean_g, mean_p = mean(g), mean(p)
    slope = (mean(g * p) - mean_g * mean_p) / (mean(g * g) - mean_g.square() + 1e-2)
    level = mean_p - slope * mean_g
    return large(slope) * guide + large(level)


def count_sketch(sketch, items, values, hashes):
    prime = 2**31 - 1
    h = hashes[..., None].unbind(1)
    bucket = (h[0] * items + h[1]).remainder(prime).remainder(sketch.shape[1])
    sign = (h[2] * items + h[3]).remainder(prime).remainder(2) * 2 - 1
    sketch.scatter_add_(1, bucket, sign * values)
    estimate = (sketch.gather(1, bucket) * sign).median(0).values
    return estimate, estimate.abs().topk(16).values


def holt_winters(level, trend, seasons, series, alpha, beta, gamma):
    period, steps = seasons.shape[1], series.shape[1]
    forecast, ahead = torch.empty_like(series), torch.empty_like(seasons)
    for t in range(steps):
        y, season = series[:, t], seasons[:, t % period]
        expected = level + trend
        forecast[:, t] = expected + season
        following = alpha * (y - season) + (1 - alpha) * expected
        trend.copy_(beta * (following - level) + (1 - beta) * trend)
        level.copy_(following)
        season.copy_(gamma * (y - following) + (1 - gamma) * season)
    for k in range(period):
        ahead[:, k] = level + (k + 1) * trend + seasons[:, (steps + k) % period]
    return forecast, ahead


def convex_upsample_case(batch=1, height=46, width=62):
    return convex_upsample, (torch.randn(batch, 2, height, width), torch.randn(batch, 576, height, width))


def edit_distance_case(pairs=2048, length=24):
    words = [integers((pairs, length), 4, torch.int32) for _ in range(2)]
    return edit_distance, (*words, *(1 + integers((pairs,), length) for _ in range(2)))


def beamformer_case(bins=32, microphones=8, snapshots=256, angles=181):
    parts = [torch.randn(bins, microphones, snapshots) for _ in range(2)]
    places, frequencies = torch.arange(microphones) * 0.05, torch.linspace(200, 3000, bins)
    return beamformer, (*parts, places, frequencies, torch.linspace(-1.5, 1.5, angles))


def stereo_match_case(height=120, width=160, shifts=24):
    scene = integers((height, width), 256, torch.uint8)
    other = torch.roll(scene, -3, 1) / 2 + integers((height, width), 16)
    return stereo_match, (scene, other.to(torch.uint8), shifts)


def merge_tokens_case(batch=8, tokens=197, width=384, keys=64):
    x, k = torch.randn(batch, tokens, width), torch.randn(batch, tokens, keys)
    return merge_tokens, (x, k, 1.0 + integers((batch, tokens, 1), 3), tokens // 12)


def latent_attention_case(batch=4, heads=16, length=1024, latent=512):
    width, turned = latent // 4, latent // 8

    def made(*sizes, over=1):
        return (torch.randn(sizes) / math.sqrt(over)).bfloat16()

    query, rotated = made(batch, heads, width), made(batch, heads, turned)
    cache, keys = made(batch, length, latent), made(batch, length, turned)
    weights = made(heads, width, latent, over=width), made(heads, latent, width, over=latent)
    lengths = length // 2 + integers((batch,), length // 2)
    return latent_attention, (query, rotated, cache, keys, lengths, *weights)


def chunk_scan_case(batch=1, chunks=8, length=64, heads=8, width=64, state=64):
    tokens = chunks * length
    x, decay = torch.randn(batch, tokens, heads, width), uniform((batch, tokens, heads), -0.2, 0)
    return chunk_scan, (x, decay, *(torch.randn(batch, tokens, state) for _ in range(2)), length)


def late_interaction_case(documents=256, length=160, query=32, width=128):
    shapes = (query, width), (documents, length, width)
    units = [F.normalize(torch.randn(shape), dim=-1).bfloat16() for shape in shapes]
    return late_interaction, (*units, 1 + integers((documents,), length))


def kepler_case(bodies=16384):
    ranges = (0.5, 30), (0, 0.7), (0, 0.5), (0, 6), (0, 6), (0, 60)
    return kepler, tuple(uniform((bodies,), low, high).double() for low, high in ranges)


def guided_filter_case(batch=2, height=240, width=320):
    guide = torch.rand(batch, 1, height, width)
    return guided_filter, (guide, 0.7 * guide + 0.3 * torch.rand_like(guide), 4)


def count_sketch_case(width=16384, items=32768):
    numbers = (torch.rand(items).pow(4) * 100000).long()
    return count_sketch, (torch.randn(5, width), numbers, torch.rand(items), integers((5, 4), 1 << 20))


def holt_winters_case(series=8192, steps=32, period=12):
    state = torch.randn(series), 0.1 * torch.randn(series), torch.randn(series, period)
    weights = [uniform((series,), 0.05, 0.4) for _ in range(3)]
    return holt_winters, (*state, torch.randn(series, steps), *weights)


CASES = {
    "convex_upsample_f32": (convex_upsample_case, {}),
    "edit_distance_i32": (edit_distance_case, {}),
    "beamformer_f32": (beamformer_case, {}),
    "stereo_match_u8": (stereo_match_case, {}),
    "merge_tokens_f32": (merge_tokens_case, {}),
    "latent_attention_bf16": (latent_attention_case, {}),
    "chunk_scan_f32": (chunk_scan_case, {}),
    "late_interaction_bf16": (late_interaction_case, {}),
    "kepler_f64": (kepler_case, {}),
    "guided_filter_f32": (guided_filter_case, {}),
    "count_sketch_f32": (count_sketch_case, {}),
    "holt_winters_f32": (holt_winters_case, {}),
}
