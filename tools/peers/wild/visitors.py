"""Programs of visitors: rows are filtered by medians, images compared, logits capped, tokens drawn,
and few of many features kept."""

import torch
import torch.nn.functional as F


def hampel(series, half):
    windows = F.pad(series, (half, half), mode="reflect").unfold(1, 2 * half + 1, 1)
    middle = windows.median(-1)[0]
    spread = (windows - middle[..., None]).abs().median(-1)[0]
    filtered = torch.where((series - middle).abs() > 3 * 1.4826 * spread, middle, series)
    return filtered, filtered.sum(1)


def mutual_information(first, second, bins):
    def bin(x):
        low, high = x.min(), x.max()
        place = (x - low) / (high - low) * (bins - 0.001)
        return place.floor().long().clamp(0, bins - 1)

    counts = torch.zeros(bins * bins).scatter_add_(0, bin(first) * bins + bin(second), torch.ones_like(first))
    joint = (counts / counts.sum()).view(bins, bins)
    rows, columns = joint.sum(1, True), joint.sum(0, True)
    parts = torch.where(joint > 0, joint * (torch.log(joint + 1e-12) - torch.log(rows * columns + 1e-12)), 0)
    both = parts.sum()
    of_rows, of_columns = -(rows * torch.log(rows + 1e-12)).sum(), -(columns * torch.log(columns + 1e-12)).sum()
    return both, 2 * both / (of_rows + of_columns), joint


def sink_attention(q, k, v, sinks, window):
    heads, positions = q.shape[1], q.shape[2]
    shared = heads // k.shape[1]
    at = torch.arange(positions)
    distance = at[:, None] - at
    keys, values = k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1)
    scores = q @ keys.transpose(-1, -2) * 0.125
    scores = 30 * torch.tanh(scores / 30)
    scores = scores.masked_fill((distance < 0) | (distance >= window), -torch.inf)
    scores = torch.cat([scores, sinks.view(1, heads, 1, 1).expand(q.shape[0], heads, positions, 1)], -1)
    weights = torch.softmax(scores, -1)[..., :positions]
    return (weights @ values).transpose(1, 2).flatten(2)


def sparse_codes(features, threshold, kept):
    active = torch.relu(features - threshold)
    most, places = active.topk(kept, -1)
    codes = torch.zeros_like(active).scatter_(1, places, most)
    return codes, (codes > 0).sum(1), most.sum(1)


def hampel_case(channels=8, samples=8192, half=4):
    return hampel, (torch.randn(channels, samples), half)


def mutual_information_case(pixels=200000, bins=64):
    first = torch.randn(pixels)
    return mutual_information, (first, first + torch.randn(pixels) * 0.5, bins)


def sink_attention_case(heads=8, positions=512, window=128):
    def some(count):
        return torch.randn(1, count, positions, 64)

    return sink_attention, (some(heads), some(heads // 2), some(heads // 2), torch.randn(heads), window)


def sparse_codes_case(rows=256, features=1024, kept=32):
    return sparse_codes, (torch.randn(rows, features), torch.rand(features) * 0.8 + 1.2, kept)


CASES = {
    "hampel_f32": (hampel_case, {}),
    "mutual_information_f32": (mutual_information_case, {}),
    "sink_attention_f32": (sink_attention_case, {}),
    "sparse_codes_f32": (sparse_codes_case, {}),
}
