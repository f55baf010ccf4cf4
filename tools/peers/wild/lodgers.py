"""Lodgers: what a reader of 149 programs found slow, one program of each kind."""

import torch
import torch.nn.functional as F

from .draw import uniform


def hidden_states(likelihoods, transitions):
    state = likelihoods[0] / likelihoods.shape[2]
    total = torch.zeros_like(state[:, 0])
    for step in range(1, likelihoods.shape[0]):
        state = torch.mm(state, transitions) * likelihoods[step]
        scale = state.sum(1, keepdim=True)
        state = state / scale
        total = total + scale.squeeze(1).log()
    return total


def conformer_module(x, taps, bias):
    gated = F.glu(x, -1).transpose(1, 2)
    return F.silu(F.conv1d(gated, taps, bias, padding=taps.shape[2] // 2, groups=taps.shape[0])).transpose(1, 2)


def short_convolution(x, taps, bias):
    made = F.conv1d(x.transpose(1, 2), taps, bias, padding=taps.shape[2] - 1, groups=taps.shape[0])
    return F.silu(made[:, :, : x.shape[1]])


def median_filter(image):
    near = F.pad(image, (2, 2, 2, 2), mode="reflect").unfold(1, 5, 1).unfold(2, 5, 1)
    return near.flatten(3).median(-1).values


def robust_rows(x):
    centred = x - x.median(1, keepdim=True).values
    spread = centred.abs().median(1, keepdim=True).values
    return (centred / (1.4826 * spread + 1e-6)).clamp(-5, 5)


def voxel_features(volume, points, rotation):
    places = torch.mm(points, rotation).view(1, 1, 1, -1, 3)
    sampled = F.grid_sample(volume, places, mode="bilinear", padding_mode="border", align_corners=True)
    features = sampled.view(volume.shape[1], -1).t()
    return torch.relu(features), features.norm(2, 1)


def elman_cell(steps, weights, over, bias):
    state = torch.zeros(steps.shape[1], weights.shape[0])
    for step in steps:
        state = torch.tanh(F.linear(step, weights, bias) + F.linear(state, over))
    return state


def hidden_states_case(steps=50, batch=64, states=12):
    return hidden_states, (uniform((steps, batch, states), 0.1, 1), torch.randn(states, states).softmax(1))


def conformer_module_case(batch=4, length=200, channels=144, taps=31):
    x, weights = torch.randn(batch, length, 2 * channels), 0.2 * torch.randn(channels, 1, taps)
    return conformer_module, (x, weights, torch.randn(channels))


def short_convolution_case(batch=2, length=256, channels=512):
    return short_convolution, (torch.randn(batch, length, channels), torch.randn(channels, 1, 4), torch.randn(channels))


def median_filter_case(height=240, width=320):
    return median_filter, (torch.randn(1, height, width),)


def robust_rows_case(rows=1024, width=1000):
    return robust_rows, (torch.randn(rows, width),)


def voxel_features_case(points=16384, side=48, channels=8):
    volume = torch.randn(1, channels, side, side, side)
    return voxel_features, (volume, uniform((points, 3), -1, 1), torch.randn(3, 3))


def elman_cell_case(steps=20, batch=8, inputs=16, states=32):
    shapes = (steps, batch, inputs), (states, inputs)
    over = 0.2 * torch.randn(states, states)
    return elman_cell, (*(torch.randn(shape) for shape in shapes), over, torch.randn(states))


CASES = {
    "hidden_states_f32": (hidden_states_case, {}),
    "conformer_module_f32": (conformer_module_case, {}),
    "short_convolution_f32": (short_convolution_case, {}),
    "median_filter_f32": (median_filter_case, {}),
    "robust_rows_f32": (robust_rows_case, {}),
    "voxel_features_f32": (voxel_features_case, {}),
    "elman_cell_f32": (elman_cell_case, {}),
}
