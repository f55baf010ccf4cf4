"""Programs of visitors: rows are filtered by medians, images compared and warped, logits capped,
few of many features kept, and weights rounded by chance."""

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


def stochastic_rounding(weights, gradient, noise):
    exact = weights - 0.1 * gradient
    moved = ((exact.view(torch.int32) + noise) & -65536).view(torch.float32)
    kept = torch.where(torch.isfinite(exact), moved, exact).bfloat16()
    return kept, (exact - kept).mean(1)


def affine_warp(image, motion, mean, spread):
    grid = F.affine_grid(motion, image.shape, align_corners=False)
    warped = F.grid_sample(image, grid, align_corners=False)
    normal = (warped - mean.view(1, -1, 1, 1)) / spread.view(1, -1, 1, 1)
    return normal, (warped - image).abs().mean((2, 3))


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


def stochastic_rounding_case(rows=700, columns=1000):
    noise = torch.randint(0, 1 << 16, (rows, columns), dtype=torch.int32)
    return stochastic_rounding, (torch.randn(rows, columns), torch.randn(rows, columns) * 0.01, noise)


def affine_warp_case(side=512):
    motion = torch.tensor([[[0.94, 0.12, 0.05], [-0.12, 0.94, -0.03]]])
    return affine_warp, (torch.rand(1, 3, side, side), motion, torch.rand(3), torch.rand(3) + 0.5)


CASES = {
    "hampel_f32": (hampel_case, {}),
    "mutual_information_f32": (mutual_information_case, {}),
    "sink_attention_f32": (sink_attention_case, {}),
    "sparse_codes_f32": (sparse_codes_case, {}),
    "stochastic_rounding_f32": (stochastic_rounding_case, {}),
    "affine_warp_f32": (affine_warp_case, {}),
}
