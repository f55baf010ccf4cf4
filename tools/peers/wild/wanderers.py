"""Wanderers: programs of many fields, from trees and edges of images to heaps of sand."""

import math

import torch
import torch.nn.functional as F

from .draw import integers, uniform, wide


def packed_cache(
    query, packed_keys, key_scales, key_lows, packed_values, value_scales, value_lows, recent_keys, recent_values
):
    batch, heads, _, width = query.shape
    tokens = packed_values.shape[2]
    shifts = torch.arange(16, dtype=torch.int32) * 2
    key_codes = ((packed_keys[:, :, :, None] >> shifts.view(16, 1)) & 3).view(batch, heads, tokens // 32, 32, width)
    value_codes = ((packed_values[..., None] >> shifts) & 3).view(batch, heads, tokens, width // 32, 32)
    keys = key_codes.to(query.dtype) * key_scales[:, :, :, None] + key_lows[:, :, :, None]
    values = value_codes.to(query.dtype) * value_scales[..., None] + value_lows[..., None]
    old, recent = query @ keys.flatten(2, 3).transpose(2, 3), query @ recent_keys.transpose(2, 3)
    scores = wide(torch.cat([old, recent], -1)) / math.sqrt(width)
    weights = torch.softmax(scores, -1).to(query.dtype)
    return weights[..., :tokens] @ values.flatten(3) + weights[..., tokens:] @ recent_values


def decomposed_attention(query, key, value, by_row, by_column):
    count, _, width = query.shape
    side = (by_row.shape[0] + 1) // 2
    places = torch.arange(side)
    apart = places[:, None] - places + (side - 1)
    rows, columns = by_row[apart], by_column[apart]
    square = query.view(count, side, side, width)
    down = torch.einsum("bhwc,hkc->bhwk", square, rows)
    across = torch.einsum("bhwc,wkc->bhwk", square, columns)
    scores = (query * (1 / math.sqrt(width))) @ key.transpose(1, 2)
    biased = scores.view(count, side, side, side, side) + down[..., None] + across[..., None, :]
    return torch.softmax(biased.view_as(scores), -1) @ value


def boosted_trees(x, feature, threshold, missing_right, leaves, depth):
    trees, inner = feature.shape
    tree = torch.arange(trees)
    node = torch.zeros(x.shape[0], trees, dtype=torch.int64)
    for _ in range(depth):
        place = node + tree * inner
        value = x.gather(1, torch.take(feature, place))
        right = torch.where(value.isnan(), torch.take(missing_right, place), value > torch.take(threshold, place))
        node = 2 * node + 1 + right.long()
    leaf = node - inner + tree * leaves.shape[1]
    return torch.sigmoid(0.1 * torch.take(leaves, leaf).sum(1) - 0.5)


def box_corners(boxes):
    x, y, w, h = boxes.unbind(-1)
    return torch.stack([x - 0.5 * w, y - 0.5 * h, x + 0.5 * w, y + 0.5 * h], -1)


def box_sizes(corners):
    return (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])


def matching_cost(logits, boxes, labels, objects):
    p, flat = torch.sigmoid(logits.flatten(0, 1)), boxes.flatten(0, 1)
    absent = 0.75 * p.pow(2) * -(1 - p + 1e-8).log()
    present = 0.25 * (1 - p).pow(2) * -(p + 1e-8).log()
    of_class = present.index_select(1, labels) - absent.index_select(1, labels)
    distance = torch.cdist(flat, objects, p=1)
    a, b = box_corners(flat), box_corners(objects)
    c = a[:, None]
    low, high = torch.maximum(c[..., :2], b[:, :2]), torch.minimum(c[..., 2:], b[:, 2:])
    sides = (high - low).clamp_min(0)
    shared = sides[..., 0] * sides[..., 1]
    union = box_sizes(a)[:, None] + box_sizes(b) - shared
    outer_low, outer_high = torch.minimum(c[..., :2], b[:, :2]), torch.maximum(c[..., 2:], b[:, 2:])
    outer = (outer_high - outer_low).clamp_min(0)
    hull = outer[..., 0] * outer[..., 1]
    generalised = shared / union - (hull - union) / hull
    cost = 5 * distance + 2 * of_class - 2 * generalised
    return cost.view(*logits.shape[:2], -1)


def farthest_points(points, features, weight, bias, samples, near):
    b, n, _ = points.shape
    distance, farthest = torch.full((b, n), 1e10), torch.zeros(b, dtype=torch.int64)
    chosen = torch.zeros(b, samples, dtype=torch.int64)
    for i in range(samples):
        chosen[:, i] = farthest
        centre = points.gather(1, farthest.view(b, 1, 1).expand(b, 1, 3))
        distance = torch.minimum(distance, (points - centre).square().sum(-1))
        farthest = distance.argmax(-1)
    centres = points.gather(1, chosen[..., None].expand(b, samples, 3))
    squares = -2 * (centres @ points.transpose(1, 2)) + centres.square().sum(-1, keepdim=True)
    squares = squares + points.square().sum(-1)[:, None]
    index = squares.topk(near, -1, largest=False).indices

    def grouped(of):
        flat = index.reshape(b, samples * near, 1).expand(b, samples * near, of.shape[2])
        return of.gather(1, flat).view(b, samples, near, of.shape[2])

    around = grouped(points) - centres[:, :, None]
    x = F.linear(torch.cat([around, grouped(features)], -1), weight, bias)
    return centres, torch.relu(x).amax(2)


def jpeg_blocks(image, mix, cosines, luma, chroma, zigzag):
    colours = torch.einsum("dc,bchw->bdhw", mix, image.to(mix.dtype))

    def coded(plane, table):
        b, c, h, w = plane.shape
        blocks = plane.reshape(b, c, h // 8, 8, w // 8, 8).permute(0, 1, 2, 4, 3, 5)
        turned = cosines @ blocks @ cosines.t()
        codes = (turned / table).round().to(torch.int16).reshape(b, c, -1, 64)
        return codes.index_select(-1, zigzag)

    def bits(codes):
        first = codes[..., 0]
        first[:, :, 1:] = first[:, :, 1:] - first[:, :, :-1]
        size = codes.abs()
        count = torch.zeros_like(size)
        for bit in range(11):
            count = count + (size >= 1 << bit)
        return count.sum(-1)

    bright = coded(colours[:, :1] - 128, luma)
    coloured = coded(F.avg_pool2d(colours[:, 1:], 2), chroma)
    return bright, coloured, bits(bright), bits(coloured)


def canny_edges(image, blur, slopes):
    h, w = image.shape[2:]
    smooth = F.conv2d(F.pad(image, (2, 2, 2, 2), mode="reflect"), blur)
    slope = F.conv2d(F.pad(smooth, (1, 1, 1, 1), mode="replicate"), slopes)
    gx, gy = slope[:, 0], slope[:, 1]
    size = (gx * gx + gy * gy).sqrt()
    angle = torch.atan2(gy, gx) * (180 / math.pi)
    angle = torch.where(angle < 0, angle + 180, angle)
    padded = F.pad(size, (1, 1, 1, 1))

    def beside(y, x):
        return padded[:, 1 + y : 1 + y + h, 1 + x : 1 + x + w]

    rising, upright = (angle >= 22.5) & (angle < 67.5), (angle >= 67.5) & (angle < 112.5)
    falling = (angle >= 112.5) & (angle < 157.5)
    one = torch.where(rising, beside(1, 1), beside(0, 1))
    one = torch.where(upright, beside(1, 0), one)
    one = torch.where(falling, beside(1, -1), one)
    other = torch.where(rising, beside(-1, -1), beside(0, -1))
    other = torch.where(upright, beside(-1, 0), other)
    other = torch.where(falling, beside(-1, 1), other)
    thin = torch.where((size >= one) & (size >= other), size, 0)
    high = 0.5 * size.amax((1, 2), keepdim=True)
    weak, edges = thin > 0.4 * high, (thin > high).to(image.dtype)
    for _ in range(8):
        edges = F.max_pool2d(edges, 3, 1, 1) * weak
    return edges, thin


def global_response(x, w):
    channels = x.shape[1]
    h = F.conv2d(x, w[0], w[1], padding=3, groups=channels).permute(0, 2, 3, 1)
    h = F.layer_norm(h, (channels,), w[2], w[3], 1e-6)
    h = F.gelu(F.linear(h, w[4], w[5]))
    response = h.norm(2, (1, 2), keepdim=True)
    relative = response / (response.mean(-1, keepdim=True) + 1e-6)
    h = w[6] * (h * relative) + w[7] + h
    return x + F.linear(h, w[8], w[9]).permute(0, 3, 1, 2)


def sandpile(grains, toppled, steps):
    for _ in range(steps):
        now = grains // 4
        toppled.add_(now)
        grains.sub_(now * 4)
        grains[1:].add_(now[:-1])
        grains[:-1].add_(now[1:])
        grains[:, 1:].add_(now[:, :-1])
        grains[:, :-1].add_(now[:, 1:])
    return (grains >= 4).sum()


def philox_normal(key, mean, deviation):
    mask, count = 0xFFFFFFFF, mean.shape[1]
    zero = torch.zeros(count, dtype=torch.int64)
    a, b, c, d = torch.arange(count), zero, zero, zero
    k0, k1 = key[0], key[1]
    for _ in range(10):
        one, other = a * 0xD2511F53, c * 0xCD9E8D57
        a, b = ((other >> 32) & mask) ^ b ^ k0, other & mask
        c, d = ((one >> 32) & mask) ^ d ^ k1, one & mask
        k0, k1 = (k0 + 0x9E3779B9) & mask, (k1 + 0xBB67AE85) & mask

    def fraction(bits):
        return (bits >> 8).to(mean.dtype) * 2.0**-24

    r1, r2 = (-2 * (1 - fraction(a)).log()).sqrt(), (-2 * (1 - fraction(c)).log()).sqrt()
    t1, t2 = 2 * math.pi * fraction(b), 2 * math.pi * fraction(d)
    return mean + deviation * torch.stack([r1 * t1.cos(), r1 * t1.sin(), r2 * t2.cos(), r2 * t2.sin()])


def rank_correlation(series):
    count, length = series.shape
    ranks = series.argsort(1).argsort(1).to(series.dtype)
    centred = ranks - ranks.mean(1, keepdim=True)
    unit = centred / centred.norm(2, 1, keepdim=True)
    rho = unit @ unit.t()
    best = rho.masked_fill(torch.eye(count, dtype=torch.bool), -2).topk(5, 1).values
    return rho, best.atanh() * math.sqrt((length - 3) / 1.06)


def soft_alignment(x, y):
    softness, far = 0.1, 1e10
    batch, n, _ = x.shape
    m = y.shape[1]
    distances = x.square().sum(-1)[..., None] + y.square().sum(-1)[:, None] - 2 * (x @ y.transpose(1, 2))
    mirrored = distances.flip(2)
    before = torch.full((batch, n + 1), far)
    before[:, 0] = 0
    last = torch.full((batch, n + 1), far)
    for total in range(2, n + m + 1):
        start, end = max(1, total - m), min(n, total - 1) + 1
        up, left, both = last[:, start - 1 : end - 1], last[:, start:end], before[:, start - 1 : end - 1]
        least = torch.logsumexp(torch.stack([up, left, both]) / -softness, 0) * -softness
        following = torch.full((batch, n + 1), far)
        following[:, start:end] = mirrored.diagonal(m + 1 - total, 1, 2) + least
        before, last = last, following
    return last[:, n]


def packed_cache_case(batch=2, heads=8, blocks=32, recent=32, groups=4):
    tokens, width = 32 * blocks, 32 * groups

    def made(rows, columns):
        return torch.randn(batch, heads, rows, columns).bfloat16()

    def stored(codes, groups_of):
        ranges = (0.5, 1.5), (-2, -1)
        scales = [uniform((batch, heads, *groups_of), *between).bfloat16() for between in ranges]
        return integers((batch, heads, *codes), 2**31 - 1, torch.int32), *scales

    keys = stored((tokens // 16, width), (tokens // 32, width))
    values = stored((tokens, width // 16), (tokens, width // 32))
    return packed_cache, (made(1, width), *keys, *values, made(recent, width), made(recent, width))


def decomposed_attention_case(heads=24, side=14, width=64):
    parts = [torch.randn(heads, side * side, width).bfloat16() for _ in range(3)]
    tables = [(0.1 * torch.randn(2 * side - 1, width)).bfloat16() for _ in range(2)]
    return decomposed_attention, (*parts, *tables)


def boosted_trees_case(samples=4096, features=32, trees=64):
    depth = 6
    inner = 2**depth - 1
    x = torch.randn(samples, features)
    x.masked_fill_(torch.rand(samples, features) < 0.05, math.nan)
    nodes = integers((trees, inner), features), torch.randn(trees, inner), torch.rand(trees, inner) < 0.5
    return boosted_trees, (x, *nodes, torch.randn(trees, inner + 1), depth)


def matching_cost_case(images=8, queries=300, objects=160):
    classes = 91

    def boxes(count):
        return torch.cat([torch.rand(count, 2), uniform((count, 2), 0.05, 0.5)], 1)

    places = boxes(images * queries).view(images, queries, 4)
    return matching_cost, (torch.randn(images, queries, classes), places, integers((objects,), classes), boxes(objects))


def farthest_points_case(clouds=4, points=1024, samples=128, features=32, width=64):
    data = torch.randn(clouds, points, 3), torch.randn(clouds, points, features)
    return farthest_points, (*data, torch.randn(width, features + 3) / 6, torch.randn(width), samples, 8)


def jpeg_blocks_case(batch=4, high=16, wide=24):
    mix = torch.tensor([[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]])
    place = torch.arange(8.0)[:, None]
    cosines = 0.5 * (math.pi / 16 * place * (2 * torch.arange(8.0) + 1)).cos()
    cosines[0] = math.sqrt(0.125)
    far = place + place.t()
    # Along diagonals, up those of even numbers and down those of odd ones.
    zigzag = (far * 16 + torch.where(far.remainder(2) == 1, place, 8 - place)).flatten().argsort()
    image = integers((batch, 3, 16 * high, 16 * wide), 256, torch.uint8)
    return jpeg_blocks, (image, mix, cosines, 10 + 6 * far, (17 + 9 * far).clamp_max(99), zigzag)


def canny_edges_case(batch=4, height=240, width=320):
    bell = torch.exp(-0.5 * torch.arange(-2.0, 3.0).square())
    blur = bell[:, None] * bell / bell.sum().square()
    across = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]])
    slopes = torch.stack([across, across.t()])[:, None]
    return canny_edges, (torch.rand(batch, 1, height, width), blur.view(1, 1, 5, 5), slopes)


def global_response_case(batch=2, side=28, channels=96):
    c = channels

    def matrix(out, of):
        return torch.randn(out, of) / math.sqrt(of)

    def vector(size):
        return torch.randn(size) * 0.1

    w = [torch.randn(c, 1, 7, 7) / 7, vector(c), uniform((c,), 0.5, 1.5), vector(c), matrix(4 * c, c), vector(4 * c)]
    w += [torch.rand(4 * c), vector(4 * c), matrix(c, 4 * c), vector(c)]
    return global_response, (torch.randn(batch, c, side, side), w)


def sandpile_case(height=320, width=320, steps=24):
    grains = integers((height, width), 12, torch.int32)
    return sandpile, (grains, torch.zeros(height, width, dtype=torch.int32), steps)


def philox_normal_case(count=131072):
    return philox_normal, (integers((2,), 1 << 32), torch.randn(4, count), uniform((4, count), 0.5, 1.5))


def rank_correlation_case(series=384, length=512):
    return rank_correlation, (torch.randn(series, length) + 0.5 * torch.randn(length),)


def soft_alignment_case(pairs=64, one=64, other=64):
    return soft_alignment, (torch.randn(pairs, one, 8), torch.randn(pairs, other, 8))


CASES = {
    "boosted_trees_f32": (boosted_trees_case, {}),
    "matching_cost_f32": (matching_cost_case, {}),
    "farthest_points_f32": (farthest_points_case, {}),
    "jpeg_blocks_u8": (jpeg_blocks_case, {}),
    "canny_edges_f32": (canny_edges_case, {}),
    "global_response_f32": (global_response_case, {}),
    "sandpile_i32": (sandpile_case, {}),
    "philox_normal_f32": (philox_normal_case, {}),
    "rank_correlation_f32": (rank_correlation_case, {}),
    "soft_alignment_f32": (soft_alignment_case, {}),
    "packed_cache_bf16": (packed_cache_case, {}),
    "decomposed_attention_bf16": (decomposed_attention_case, {}),
}
