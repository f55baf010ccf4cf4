"""Geospatial: satellite scenes, terrain, stations on the globe."""

import math

import torch
import torch.nn.functional as F

from .draw import integers, uniform

RADIANS = math.pi / 180


def cloud_composite(scenes, quality):
    valid = (quality & 0x18) == 0
    count = valid.sum(0)
    red, infrared = scenes[:, 0].float() * 1e-4, scenes[:, 1].float() * 1e-4
    index = (infrared - red) / (infrared + red).clamp_min(1e-4)
    ordered = torch.where(valid, index, math.inf).sort(0).values
    middle = (count - 1).clamp_min(0).div(2, rounding_mode="floor")
    median = ordered.gather(0, middle[None]).squeeze(0)
    total = torch.where(valid[:, None], scenes, 0).sum(0)
    mean = total.div(count.clamp_min(1), rounding_mode="floor").to(torch.int16)
    return median.masked_fill(count == 0, -1), mean, count.to(torch.uint8)


def hillshade(elevation):
    height, width = elevation.shape
    padded = F.pad(elevation[None], (1, 1, 1, 1), mode="replicate").squeeze(0)

    def near(row, column):
        return padded[row : row + height, column : column + width]

    east = near(0, 2) + 2 * near(1, 2) + near(2, 2)
    west = near(0, 0) + 2 * near(1, 0) + near(2, 0)
    north = near(0, 0) + 2 * near(0, 1) + near(0, 2)
    south = near(2, 0) + 2 * near(2, 1) + near(2, 2)
    dx, dy = (east - west) / (8 * 30), (south - north) / (8 * 30)
    slope, aspect = torch.atan(torch.hypot(dx, dy)), torch.atan2(dy, -dx)
    zenith, azimuth = 45 * RADIANS, 135 * RADIANS
    shade = math.cos(zenith) * slope.cos() + math.sin(zenith) * slope.sin() * (azimuth - aspect).cos()
    return slope / RADIANS, 255 * shade.clamp_min(0)


def nearest_station(points, values, stations):
    a, b = points * RADIANS, stations * RADIANS
    latitude, other = a[:, :1], b[:, 0]
    half = torch.sin((latitude - other) / 2).square()
    across = torch.sin((a[:, 1:] - b[:, 1]) / 2).square()
    h = half + latitude.cos() * other.cos() * across
    distance = 2 * 6371.0088 * torch.asin(h.sqrt().clamp_max(1))
    nearest, station = distance.min(1)
    total = torch.zeros_like(other).index_add_(0, station, values)
    count = torch.zeros_like(other).index_add_(0, station, torch.ones_like(values))
    return nearest, station, total / count.clamp_min(1)


def cloud_composite_case(scenes=7, height=512, width=512):
    reflectance = integers((scenes, 2, height, width), 10000, torch.int16)
    return cloud_composite, (reflectance, integers((scenes, height, width), 64, torch.uint8))


def hillshade_case(height=512, width=512):
    return hillshade, ((torch.randn(height, width) * 3).cumsum(0).cumsum(1) * 0.1,)


def nearest_station_case(points=512, stations=48):
    def made(count):
        return torch.cat([uniform((count, 1), -60, 60), uniform((count, 1), -180, 180)], 1)

    return nearest_station, (made(points), torch.randn(points), made(stations))


CASES = {
    "cloud_composite_f32": (cloud_composite_case, {}),
    "hillshade_f32": (hillshade_case, {}),
    "nearest_station_f32": (nearest_station_case, {}),
}
