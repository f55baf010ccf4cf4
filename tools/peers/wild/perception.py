"""Vision after the network, images, and sound: poses, rays, splats, windows, thresholds, pitch."""

import math

import torch
import torch.nn.functional as F

from .draw import integers, uniform


def pose_decode(heat, mirrored, partner):
    back = mirrored.flip(-1).index_select(1, partner)
    back[..., 1:] = back[..., :-1].clone()  # the maps lie one pixel apart
    mean = (heat + back) * 0.5
    p = torch.softmax(mean.flatten(2) * 10, -1).view(mean.shape)
    x = (p.sum(2) * torch.arange(heat.shape[3], dtype=heat.dtype)).sum(-1)
    y = (p.sum(3) * torch.arange(heat.shape[2], dtype=heat.dtype)).sum(-1)
    return torch.stack([x, y], -1), mean.amax((2, 3))


def volume_render(density, colour, t):
    step = torch.cat([t[:, 1:] - t[:, :-1], torch.full_like(t[:, :1], 1e10)], 1)
    alpha = 1 - (-F.relu(density) * step).exp()
    passed = torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], 1).cumprod(1)
    weight = alpha * passed[:, :-1]
    opacity, depth = weight.sum(1), (weight * t).sum(1)
    rgb = (weight[..., None] * colour.sigmoid()).sum(1)
    disparity = 1 / (depth / opacity.clamp_min(1e-10)).clamp_min(1e-10)
    return rgb + (1 - opacity)[..., None], depth, disparity, opacity


def splat_project(centres, scales, quaternions, camera):
    focal = 600.0
    w, x, y, z = (quaternions / quaternions.norm(2, 1, keepdim=True)).unbind(1)
    rows = [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)]
    rows += [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)]
    rows += [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]
    m = torch.stack(rows, 1).view(-1, 3, 3) * scales.exp()[:, None]
    covariance = torch.bmm(m, m.transpose(1, 2))
    turn = camera[:, :3]
    seen = torch.matmul(centres, turn.t()) + camera[:, 3]
    inverse, flat = 1 / seen[:, 2], seen[:, :2]
    jacobian = torch.zeros(centres.shape[0], 2, 3, dtype=centres.dtype)
    jacobian[:, 0, 0] = focal * inverse
    jacobian[:, 1, 1] = focal * inverse
    jacobian[:, :, 2] = -focal * flat * inverse.square()[:, None]
    k = torch.matmul(jacobian, turn)
    c = torch.bmm(torch.bmm(k, covariance), k.transpose(1, 2))
    xx, xy, yy = c[:, 0, 0] + 0.3, c[:, 0, 1], c[:, 1, 1] + 0.3
    area, middle = xx * yy - xy * xy, 0.5 * (xx + yy)
    largest = middle + (middle * middle - area).clamp_min(0.1).sqrt()
    conic = torch.stack([yy, -xy, xx], 1) / area[:, None]
    return focal * flat * inverse[:, None], conic, 3 * largest.sqrt()


def harris(image, kernels, window, count):
    width = image.shape[1]
    padded = F.pad(image[None, None], (1, 1, 1, 1), mode="replicate")
    gradient = F.conv2d(padded, kernels)
    gx, gy = gradient[:, 0:1], gradient[:, 1:2]
    products = torch.cat([gx * gx, gy * gy, gx * gy], 1)
    s = F.conv2d(products, window.expand(3, 1, 5, 5), padding=2, groups=3).split(1, 1)
    trace = s[0] + s[1]
    response = s[0] * s[1] - s[2] * s[2] - 0.05 * trace * trace
    peak = response == F.max_pool2d(response, 5, 1, 2)
    kept = torch.where(peak.logical_and(response > 0), response, 0).flatten()
    score, index = kept.topk(count)
    return score, torch.stack([index // width, index % width], 1)


def deformable_attention(fine, coarse, offsets, scores, side):
    half = 0.5 / side
    line = torch.linspace(half, 1 - half, side, dtype=fine.dtype)
    down, across = torch.meshgrid(line, line, indexing="ij")
    reference = torch.stack([across.flatten(), down.flatten()], -1).view(1, -1, 1, 1, 2)
    sizes = torch.tensor([fine.shape[3], fine.shape[2], coarse.shape[3], coarse.shape[2]])
    places = 2 * (reference + offsets / sizes.to(fine.dtype).view(2, 1, 2)) - 1
    sampled = torch.cat(
        [
            F.grid_sample(level, places[:, :, i], mode="bilinear", padding_mode="zeros", align_corners=False)
            for i, level in enumerate((fine, coarse))
        ],
        -1,
    )
    share = torch.softmax(scores, -1)[:, None]
    return (sampled * share).sum(-1).transpose(1, 2).contiguous()


def shifted_windows(x, weight, bias):
    _, height, width, channels = x.shape
    down, across = height // 7, width // 7
    y = torch.roll(F.layer_norm(x, (channels,), weight, bias, 1e-5), (-3, -3), (1, 2))
    windows = y.view(-1, down, 7, across, 7, channels).permute(0, 1, 3, 2, 4, 5).reshape(-1, 49, channels)
    region = torch.zeros(7 * down, 7 * across)
    rows = 0, 7 * down - 7, 7 * down - 3, 7 * down
    columns = 0, 7 * across - 7, 7 * across - 3, 7 * across
    for i in range(3):
        for j in range(3):
            region[rows[i] : rows[i + 1], columns[j] : columns[j + 1]] = 3 * i + j
    label = region.view(down, 7, across, 7).permute(0, 2, 1, 3).reshape(-1, 49)
    apart = label[:, None] - label[:, :, None]
    return windows, apart.masked_fill(apart != 0, -100.0)


def gated_upscale(body, skip, down, down_bias, up, up_bias):
    hidden = F.relu(F.linear(body.mean((2, 3)), down, down_bias))
    gate = F.linear(hidden, up, up_bias).sigmoid()
    y = body * gate[..., None, None] + skip
    return F.pixel_shuffle(y, 2)


def yin(signal, window):
    shortest = 20
    frames = signal.unfold(-1, 2 * window, window)
    lagged = frames.unfold(-1, window, 1)[:, :, :window]
    difference = (lagged - lagged[:, :, :1]).square().sum(-1)[..., 1:]
    lags = torch.arange(1, window, dtype=signal.dtype)
    mean = difference.cumsum(-1).clamp_min(1e-8)
    d = F.pad(difference * lags / mean, (1, 0), value=1)
    best = (d[..., shortest:].argmin(-1, keepdim=True) + shortest).clamp_max(window - 2)
    before, here, after = d.gather(-1, best - 1), d.gather(-1, best), d.gather(-1, best + 1)
    shift = (before - after) / (2 * (before - 2 * here + after))
    pitch = 16000 / (best + shift.clamp(-1, 1))
    return torch.where(here < 0.3, pitch, 0).squeeze(-1), (1 - here).squeeze(-1)


def spectral_loss(made, wanted, longest):
    loss = torch.zeros((), dtype=made.dtype)
    for size in (longest, longest // 2, longest // 4):
        window = torch.hann_window(size, dtype=made.dtype)

        def magnitude(x, size=size, window=window):
            return torch.stft(x, size, size // 4, size, window, return_complex=True).abs().clamp_min(1e-5)

        a, b = magnitude(made), magnitude(wanted)
        loss += (b - a).norm() / b.norm() + (b.log() - a.log()).abs().mean()
    return loss / 3


def dither(image, bayer):
    height, width, _ = image.shape
    red, green, blue = image.int().unbind(2)
    luma = torch.bitwise_right_shift(77 * red + 150 * green + 29 * blue, 8)
    threshold = (bayer.int() * 4 + 2).repeat(height // 8, width // 8)
    bits = (luma > threshold).view(height, width // 8, 8)
    places = torch.bitwise_left_shift(
        torch.ones(8, dtype=torch.int32), torch.arange(7, -1, -1, dtype=torch.int32)
    )
    return (bits * places).sum(-1).to(torch.uint8)


def to_lab(image, matrix):
    linear = torch.where(image <= 0.04045, image / 12.92, ((image + 0.055) / 1.055).pow(2.4))
    white = torch.tensor([0.95047, 1.0, 1.08883], dtype=image.dtype).view(3, 1, 1)
    xyz = torch.einsum("dc,nchw->ndhw", matrix, linear) / white
    f = torch.where(xyz > 0.008856, xyz.clamp_min(1e-6).pow(1 / 3), 7.787 * xyz + 16 / 116)
    x, y, z = f.unbind(1)
    return torch.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], 1)


def colour_difference(a, b, matrix):
    distance = (to_lab(a, matrix) - to_lab(b, matrix)).square().sum(1).sqrt()
    return distance, distance.mean((1, 2))


def bilateral(x):
    patches = F.pad(x, (2, 2, 2, 2), mode="reflect").unfold(2, 5, 1).unfold(3, 5, 1)
    line = torch.linspace(-2, 2, 5, dtype=x.dtype)
    down, across = torch.meshgrid(line, line, indexing="ij")
    near = (-(down.square() + across.square()) / (2 * 1.5 * 1.5)).exp()
    difference = patches - x[..., None, None]
    alike = (-difference.square().sum(1, keepdim=True) / (2 * 0.2 * 0.2)).exp()
    weight = alike * near
    return (patches * weight).sum((-2, -1)) / weight.sum((-2, -1))


def match_histogram(image, other):
    values = image.flatten(1)
    count, last = values.shape[1], other.shape[1] * other.shape[2] - 1
    order = torch.sort(values, dim=1, stable=True).indices
    ordered = other.flatten(1).sort(1).values
    place = torch.linspace(0, last, count, dtype=image.dtype)
    low = place.floor().long().clamp(0, last)
    high = (low + 1).clamp_max(last)
    quantiles = torch.lerp(ordered.index_select(1, low), ordered.index_select(1, high), place - low)
    matched = torch.empty_like(values).scatter_(1, order, quantiles)
    return torch.lerp(values, matched, 0.8).view(image.shape)


def adaptive_threshold(image, radius):
    height, width = image.shape
    level = image.int()
    integral = F.pad(level.cumsum(0, dtype=torch.int32).cumsum(1, dtype=torch.int32), (1, 0, 1, 0))
    row, column = torch.arange(height), torch.arange(width)
    top, bottom = (row - radius).clamp_min(0), (row + radius + 1).clamp_max(height)
    left, right = (column - radius).clamp_min(0), (column + radius + 1).clamp_max(width)
    band = integral.index_select(0, bottom) - integral.index_select(0, top)
    total = band.index_select(1, right) - band.index_select(1, left)
    area = (bottom - top)[:, None] * (right - left)
    return torch.where(level * area * 100 > total.long() * 85, 255, 0).to(torch.uint8)


def pose_decode_case(batch=32, height=64, width=48):
    partner = torch.tensor([0, 2, 1, 4, 3, 6, 5, 8, 7, 10, 9, 12, 11, 14, 13, 16, 15])
    shape = batch, 17, height, width
    return pose_decode, (uniform(shape), uniform(shape), partner)


def volume_render_case(rays=8192, samples=64):
    density, colour = torch.randn(rays, samples) * 2 + 1, torch.randn(rays, samples, 3)
    return volume_render, (density, colour, uniform((rays, samples), 2, 6).sort(1).values)


def splat_project_case(gaussians=65536):
    centres, scales = uniform((gaussians, 3), -1, 1), uniform((gaussians, 3), -5, -4)
    c, s = math.cos(0.3), math.sin(0.3)
    camera = torch.tensor([[c, 0.0, s, 0.1], [0.0, 1.0, 0.0, -0.2], [-s, 0.0, c, 6.0]])
    return splat_project, (centres, scales, torch.randn(gaussians, 4), camera)


def harris_case(height=512, width=512, corners=64):
    across = torch.tensor([[-3.0, 0.0, 3.0], [-10.0, 0.0, 10.0], [-3.0, 0.0, 3.0]])[None] / 32
    kernels = torch.stack([across, across.transpose(1, 2)]).contiguous()
    line = torch.tensor([1.0, 4.0, 6.0, 4.0, 1.0]) / 16
    return harris, (uniform((height, width)), kernels, torch.outer(line, line).view(1, 1, 5, 5), corners)


def deformable_attention_case(heads=8, width=32, side=32, points=4):
    fine, coarse = torch.randn(heads, width, 2 * side, 2 * side), torch.randn(heads, width, side, side)
    offsets = torch.randn(heads, side * side, 2, points, 2) * 2
    return deformable_attention, (fine, coarse, offsets, torch.randn(heads, side * side, 2 * points), side)


def shifted_windows_case(batch=16, windows=8, channels=96):
    x = torch.randn(batch, 7 * windows, 7 * windows, channels).bfloat16()
    return shifted_windows, (x, uniform((channels,), 0.5, 2).bfloat16(), torch.randn(channels).bfloat16())


def gated_upscale_case(batch=4, channels=16, side=128, hidden=16):
    features = 4 * channels
    shapes = [(batch, features, side, side)] * 2 + [(hidden, features), (hidden,), (features, hidden), (features,)]
    return gated_upscale, tuple(torch.randn(shape).bfloat16() for shape in shapes)


def yin_case(batch=2, frames=60, window=256):
    samples = (frames + 1) * window
    phase = 2 * math.pi * torch.arange(samples).float() / uniform((batch, 1), 25, 0.8 * window)
    return yin, (phase.sin() + 0.5 * (2 * phase).sin() + 0.1 * torch.randn(batch, samples), window)


def spectral_loss_case(batch=4, samples=65536, window=1024):
    wanted = torch.randn(batch, samples)
    return spectral_loss, (wanted + 0.3 * torch.randn(batch, samples), wanted, window)


def dither_case(tall=90, wide=160):
    bayer = torch.zeros(1, 1, dtype=torch.int64)
    for _ in range(3):
        x = 4 * bayer
        bayer = torch.cat([torch.cat([x, x + 2], 1), torch.cat([x + 3, x + 1], 1)], 0)
    return dither, (integers((8 * tall, 8 * wide, 3), 256, torch.uint8), bayer.to(torch.uint8))


def colour_difference_case(images=1, height=512, width=512):
    matrix = torch.tensor(
        [
            [0.4124564, 0.3575761, 0.1804375],
            [0.2126729, 0.7151522, 0.0721750],
            [0.0193339, 0.1191920, 0.9503041],
        ]
    )
    shape = images, 3, height, width
    return colour_difference, (uniform(shape), uniform(shape), matrix)


def bilateral_case(images=1, height=192, width=256):
    return bilateral, (uniform((images, 3, height, width)),)


def match_histogram_case(side=224, other=192):
    return match_histogram, (uniform((3, side, side)), torch.randn(3, other, other) * 0.2 + 0.5)


def adaptive_threshold_case(height=720, width=1280, radius=7):
    return adaptive_threshold, (integers((height, width), 256, torch.uint8), radius)


CASES = {
    "pose_decode_f32": (pose_decode_case, {}),
    "volume_render_f32": (volume_render_case, {}),
    "splat_project_f32": (splat_project_case, {}),
    "harris_f32": (harris_case, {}),
    "deformable_attention_f32": (deformable_attention_case, {}),
    "shifted_windows_bf16": (shifted_windows_case, {}),
    "gated_upscale_bf16": (gated_upscale_case, {}),
    "yin_f32": (yin_case, {}),
    "spectral_loss_f32": (spectral_loss_case, {}),
    "dither_u8": (dither_case, {}),
    "colour_difference_f32": (colour_difference_case, {}),
    "bilateral_f32": (bilateral_case, {}),
    "match_histogram_f32": (match_histogram_case, {}),
    "adaptive_threshold_u8": (adaptive_threshold_case, {}),
}
