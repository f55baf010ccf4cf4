"""Colours and their statistics."""

import math

import torch

from .draw import integers, uniform


def normalise(images, mean, deviation):
    planes = images.permute(0, 3, 1, 2).to(mean.dtype) / 255
    return ((planes - mean.view(3, 1, 1)) / deviation.view(3, 1, 1)).contiguous()


def rgb_to_hsv(image):
    value, which = image.max(1)
    span = value - image.amin(1)
    saturation = span / (value + 1e-8)
    red, green, blue = (value[:, None] - image).unbind(1)
    hues = torch.stack([blue - green, red - blue + 2 * span, green - red + 4 * span], 1)
    hues = hues / torch.where(span == 0, 1, span)[:, None]
    sixth = hues.gather(1, which[:, None]).squeeze(1) / 6
    return torch.stack([torch.remainder(sixth, 1) * (2 * math.pi), saturation, value], 1)


def yuv_to_rgb(luma, chroma):
    height, width = luma.shape
    y = (luma.float() - 16) * 1.164383
    uv = (chroma.float() - 128).view(height // 2, 1, width // 2, 1, 2)
    uv = uv.expand(height // 2, 2, width // 2, 2, 2).reshape(height, width, 2)
    u, v = uv[..., 0], uv[..., 1]
    rgb = torch.stack([y + 1.596027 * v, y - 0.391762 * u - 0.812968 * v, y + 2.017232 * u], -1)
    return rgb.round().clamp(0, 255).to(torch.uint8)


def equalise(image):
    level = image.view(-1).long()
    counts = torch.zeros(256).scatter_add_(0, level, torch.ones(level.shape[0]))
    share = counts.cumsum(0) / level.shape[0]
    table = (share * 255).round().to(torch.uint8)
    return table.index_select(0, level).view(image.shape)


def soft_histogram(values, bins):
    centres = torch.arange(bins, dtype=values.dtype) / (bins - 1)
    distance = (values[..., None] - centres).abs()
    return (1 - distance * (bins - 1)).clamp_min(0).mean(1)


def normalise_case(images=4, height=720, width=1280):
    mean, deviation = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    return normalise, (integers((images, height, width, 3), 256, torch.uint8), mean, deviation)


def rgb_to_hsv_case(images=4, height=512, width=512):
    return rgb_to_hsv, (uniform((images, 3, height, width)),)


def yuv_to_rgb_case(height=540, width=960):
    luma = integers((2 * height, 2 * width), 256, torch.uint8)
    return yuv_to_rgb, (luma, integers((height, width, 2), 256, torch.uint8))


def equalise_case(height=2048, width=2048):
    return equalise, ((torch.randn(height, width) * 40 + 120).clamp(0, 255).to(torch.uint8),)


def soft_histogram_case(images=32, pixels=65536, bins=16):
    return soft_histogram, (uniform((images, pixels)), bins)


CASES = {
    "normalise_f32": (normalise_case, {}),
    "rgb_to_hsv_f32": (rgb_to_hsv_case, {}),
    "yuv_to_rgb_u8": (yuv_to_rgb_case, {}),
    "equalise_u8": (equalise_case, {}),
    "soft_histogram_f32": (soft_histogram_case, {}),
}
