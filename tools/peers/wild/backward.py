"""Backward passes written by hand for autograd functions of whole blocks."""

import torch

from .draw import uniform, wide


def group_norm_silu_backward(gradient, x, weight, bias, groups):
    batch, channels = x.shape[:2]
    variance, mean = torch.var_mean(x.view(batch, groups, -1), -1, unbiased=False, keepdim=True)
    scale = torch.rsqrt(variance + 1e-5)
    normal = (x.view(batch, groups, -1) - mean) * scale
    rows, w = normal.view(batch, channels, -1), weight.view(1, -1, 1)
    z = rows * w + bias.view(1, -1, 1)
    gate = torch.sigmoid(z)
    by_z = gradient.view(batch, channels, -1) * gate * (1 + z * (1 - gate))
    by_weight, by_bias = (by_z * rows).sum((0, 2)), by_z.sum((0, 2))
    inner = (by_z * w).view(batch, groups, -1)
    along = (inner * normal).mean(-1, keepdim=True)
    by_x = scale * (inner - inner.mean(-1, keepdim=True) - normal * along)
    return by_x.view(x.shape), by_weight, by_bias


def rotary_norm_backward(by_query, by_key, query, key, query_weight, key_weight, cosine, sine):
    def back(gradient, x, weight):
        g, f = wide(gradient), wide(x)
        left, right = (g * sine).chunk(2, -1)
        turned = g * cosine + torch.cat([right, -left], -1)
        scale = torch.rsqrt(f.square().mean(-1, keepdim=True) + 1e-6)
        normal = f * scale
        inner = turned * weight
        by_x = scale * (inner - normal * (inner * normal).mean(-1, keepdim=True))
        return by_x.to(x.dtype), (turned * normal).sum((0, 1, 2))

    return *back(by_query, query, query_weight), *back(by_key, key, key_weight)


def depthwise_backward(gradient, x, convolved, weight):
    length, taps = x.shape[2], weight.shape[1]
    gate = torch.sigmoid(convolved)
    inner = gradient * (gate * (1 + convolved * (1 - gate)))
    by_x, by_weight = torch.zeros_like(x), torch.empty_like(weight)
    for i in range(taps):
        shift = taps - 1 - i
        later, earlier = inner[:, :, shift:], x[:, :, : length - shift]
        by_x[:, :, : length - shift] += later * weight[:, i, None]
        by_weight[:, i] = (later * earlier).sum((0, 2))
    return by_x, by_weight, inner.sum((0, 2))


def layer_scale_backward(gradient, branch, scale, kept, scale_gradient, bias_gradient):
    dropped = gradient * (kept / 0.9).view(-1, 1, 1)
    by_branch = dropped * scale
    scale_gradient.add_((dropped * branch).sum((0, 1)))
    bias_gradient.add_(by_branch.sum((0, 1)))
    return by_branch


def group_norm_silu_backward_case(batch=4, groups=32, per_group=4, side=48):
    channels = groups * per_group
    gradient, x = (torch.randn(batch, channels, side, side) for _ in range(2))
    return group_norm_silu_backward, (gradient, x, 1 + 0.1 * torch.randn(channels), torch.randn(channels), groups)


def rotary_norm_backward_case(batch=1, tokens=512, heads=16, key_heads=4, width=128):
    def made(count):
        return torch.randn(batch, tokens, count, width).bfloat16()

    angle = torch.arange(tokens)[:, None] * 10000.0 ** (-torch.arange(width // 2) / (width // 2))
    angle = torch.cat([angle, angle], -1)[:, None]
    query_weight, key_weight = (1 + 0.1 * torch.randn(width) for _ in range(2))
    by_query, by_key, query, key = made(heads), made(key_heads), made(heads), made(key_heads)
    return rotary_norm_backward, (by_query, by_key, query, key, query_weight, key_weight, angle.cos(), angle.sin())


def depthwise_backward_case(batch=2, channels=512, length=1024, taps=4):
    gradient, x, convolved = (torch.randn(batch, channels, length) for _ in range(3))
    return depthwise_backward, (gradient, x, convolved, torch.randn(channels, taps))


def layer_scale_backward_case(batch=8, tokens=49, width=384):
    gradient, branch = (torch.randn(batch, tokens, width) for _ in range(2))
    kept = (uniform((batch,)) < 0.9).float()
    return layer_scale_backward, (gradient, branch, uniform((width,)), kept, torch.zeros(width), torch.zeros(width))


CASES = {
    "group_norm_silu_backward_f32": (group_norm_silu_backward_case, {}),
    "rotary_norm_backward_bf16": (rotary_norm_backward_case, {}),
    "depthwise_backward_f32": (depthwise_backward_case, {}),
    "layer_scale_backward_f32": (layer_scale_backward_case, {}),
}
