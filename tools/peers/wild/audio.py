"""Audio: spectra, codes, filters."""

import math

import torch

from .draw import uniform


def log_mel(spectra, filters):
    power = spectra.square().sum(-1)
    level = (power @ filters).clamp_min(1e-10).log10()
    top = level.amax((1, 2), keepdim=True)
    return (torch.maximum(level, top - 8) + 4) / 4


def mu_law(x):
    y = x.sign() * torch.log1p(x.abs() * 255) / math.log1p(255)
    codes = ((y + 1) / 2 * 255 + 0.5).to(torch.uint8)
    z = codes.to(x.dtype) / 255 * 2 - 1
    return codes, z.sign() * (torch.exp(z.abs() * math.log1p(255)) - 1) / 255


def biquad(x, coefficients):
    b0, b1, b2, a1, a2 = coefficients.unbind(0)
    out = torch.empty_like(x)
    x1 = x2 = y1 = y2 = torch.zeros_like(x[0])
    for t in range(x.shape[0]):
        y = b0 * x[t] + b1 * x1 + b2 * x2 - a1 * y1 - a2 * y2
        out[t] = y
        x2, x1, y2, y1 = x1, x[t], y1, y
    return out


def overlap_add(frames, window):
    batch, count, length = frames.shape
    half = length // 2
    windowed, power = frames * window, window.square()
    total = torch.zeros((batch, count + 1, half), dtype=frames.dtype)
    total[:, :count] += windowed[:, :, :half]
    total[:, 1:] += windowed[:, :, half:]
    return (total / (power[:half] + power[half:])).view(batch, -1)


def partitioned_convolution(blocks, response):
    a, b = blocks[..., 0], blocks[..., 1]
    c, d = response[..., 0], response[..., 1]
    return torch.stack([(a * c - b * d).sum(0), (a * d + b * c).sum(0)], -1)


def log_mel_case(batch=4, frames=3000, frequencies=201, mels=80):
    spectra = torch.randn(batch, frames, frequencies, 2)
    return log_mel, (spectra, uniform((frequencies, mels)) / frequencies)


def mu_law_case(samples=4194304):
    return mu_law, (uniform((samples,), -1, 1),)


def biquad_case(steps=64, channels=1024):
    first, second = uniform((1, channels), -0.9, 0.9), uniform((1, channels), 0, 0.6)
    return biquad, (torch.randn(steps, channels), torch.cat([torch.randn(3, channels), first, second]))


def overlap_add_case(batch=8, frames=1024, half=256):
    window = torch.hann_window(2 * half + 1)[: 2 * half] + 0.01
    return overlap_add, (torch.randn(batch, frames, 2 * half), window)


def partitioned_convolution_case(parts=16, channels=128, frequencies=1025):
    return partitioned_convolution, tuple(torch.randn(parts, channels, frequencies, 2) for _ in range(2))


CASES = {
    "log_mel_f32": (log_mel_case, {}),
    "mu_law_f32": (mu_law_case, {}),
    "biquad_f32": (biquad_case, {}),
    "overlap_add_f32": (overlap_add_case, {}),
    "partitioned_convolution_f32": (partitioned_convolution_case, {}),
}
