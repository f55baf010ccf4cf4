"""Norms of feature maps and of tokens, forward and backward."""

import torch
import torch.nn.functional as F

from .draw import uniform


def batch_norm_relu(x, shortcut, mean, variance, weight, bias):
    return torch.relu(F.batch_norm(x, mean, variance, weight, bias, False, 0.1, 1e-5) + shortcut)


def batch_norm_train(x, weight, bias, running_mean, running_variance):
    variance, mean = torch.var_mean(x, (0, 2, 3), unbiased=False)
    count = x.numel() // x.shape[1]
    running_mean.mul_(0.9).add_(mean, alpha=0.1)
    running_variance.mul_(0.9).add_(variance, alpha=0.1 * count / (count - 1))
    scale = weight * torch.rsqrt(variance + 1e-5)
    shift = bias - mean * scale
    return x * scale.view(1, -1, 1, 1) + shift.view(1, -1, 1, 1)


def group_norm_silu(x, weight, bias, groups):
    parts = x.view(x.shape[0], groups, -1)
    centred = parts - parts.mean(-1, keepdim=True)
    variance = centred.square().mean(-1, keepdim=True)
    normal = (centred * torch.rsqrt(variance + 1e-5)).view(x.shape)
    return F.silu(normal * weight.view(1, -1, 1, 1) + bias.view(1, -1, 1, 1))


def channel_norm(x, weight, bias):
    centred = x - x.mean(1, keepdim=True)
    variance = centred.square().mean(1, keepdim=True)
    return centred / (variance + 1e-6).sqrt() * weight.view(-1, 1, 1) + bias.view(-1, 1, 1)


def layer_norm_backward(gradient, x, weight):
    variance, mean = torch.var_mean(x, -1, unbiased=False, keepdim=True)
    scale = torch.rsqrt(variance + 1e-5)
    normal = (x - mean) * scale
    inner = gradient * weight
    along = (inner * normal).mean(-1, keepdim=True)
    by_x = scale * (inner - inner.mean(-1, keepdim=True) - normal * along)
    return by_x, (gradient * normal).sum(0), gradient.sum(0)


def batch_norm_relu_case(batch=16, channels=64, side=56):
    x, shortcut = (torch.randn(batch, channels, side, side) for _ in range(2))
    mean, variance = torch.randn(channels), uniform((channels,), 0.5, 2)
    return batch_norm_relu, (x, shortcut, mean, variance, torch.randn(channels), torch.randn(channels))


def batch_norm_train_case(batch=16, channels=64, side=56):
    x = torch.randn(batch, channels, side, side)
    weight, bias = torch.randn(channels), torch.randn(channels)
    return batch_norm_train, (x, weight, bias, torch.zeros(channels), torch.ones(channels))


def group_norm_silu_case(batch=8, groups=32, per_group=4, side=64):
    channels = groups * per_group
    x = torch.randn(batch, channels, side, side)
    return group_norm_silu, (x, torch.randn(channels), torch.randn(channels), groups)


def channel_norm_case(batch=16, channels=96, side=56):
    return channel_norm, (torch.randn(batch, channels, side, side), torch.randn(channels), torch.randn(channels))


def layer_norm_backward_case(rows=4096, columns=1024):
    return layer_norm_backward, (torch.randn(rows, columns), torch.randn(rows, columns), torch.randn(columns))


CASES = {
    "batch_norm_relu_f32": (batch_norm_relu_case, {}),
    "batch_norm_train_f32": (batch_norm_train_case, {}),
    "group_norm_silu_f32": (group_norm_silu_case, {}),
    "channel_norm_f32": (channel_norm_case, {}),
    "layer_norm_backward_f32": (layer_norm_backward_case, {}),
}
