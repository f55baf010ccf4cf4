"""Models, second part: parts of models, optimizers, quantisers and losses of recent papers."""

import torch
import torch.nn.functional as F

from .draw import integers, uniform, wide


def delta_rule(r, w, k, v, removal, rate):
    decay = torch.exp(-torch.exp(w))
    unit = removal / removal.norm(2, -1, keepdim=True).clamp_min(1e-12)
    a, b = -unit, unit * rate
    batch, steps, heads, width = r.shape
    state = torch.zeros((batch, heads, width, width), dtype=r.dtype)
    out = torch.empty_like(v)
    for t in range(steps):
        removed = state @ a[:, t, :, :, None] @ b[:, t, :, None]
        added = v[:, t, :, :, None] @ k[:, t, :, None]
        state = state * decay[:, t, :, None] + removed + added
        out[:, t] = (state @ r[:, t, :, :, None]).squeeze(-1)
    return out


def spline_layer(x, knots, weight, splines, scales):
    u = x[..., None]
    bases = (u >= knots[:, :-1]).logical_and(u < knots[:, 1:]).to(x.dtype)
    for k in range(1, 4):
        first, last = knots[:, : -(k + 1)], knots[:, k + 1 :]
        rising = (u - first) / (knots[:, k:-1] - first)
        falling = (last - u) / (last - knots[:, 1:-k])
        bases = rising * bases[:, :, :-1] + falling * bases[:, :, 1:]
    scaled = (splines * scales[..., None]).view(weight.shape[0], -1)
    return F.silu(x) @ weight.t() + bases.reshape(x.shape[0], -1) @ scaled.t()


def diagonal_kernel(log_step, log_real, imaginary, c_real, c_imaginary, length):
    step, real = log_step.exp()[:, None], -log_real.exp()
    zr, zi = real * step, imaginary * step
    er, ei = zr.exp() * zi.cos() - 1, zr.exp() * zi.sin()
    square = real.square() + imaginary.square()
    qr = (er * real + ei * imaginary) / square
    qi = (ei * real - er * imaginary) / square
    cr, ci = c_real * qr - c_imaginary * qi, c_real * qi + c_imaginary * qr
    time = torch.arange(length, dtype=log_step.dtype)
    size, angle = (zr[..., None] * time).exp(), zi[..., None] * time
    return 2 * (size * (cr[..., None] * angle.cos() - ci[..., None] * angle.sin())).sum(1)


def schedule_free_adamw(y, gradients, z, second):
    rate, mix = 2e-3, 0.1
    torch._foreach_mul_(second, 0.999)
    torch._foreach_addcmul_(second, gradients, gradients, value=0.001)
    below = torch._foreach_div(second, 0.00995512)
    torch._foreach_sqrt_(below)
    torch._foreach_add_(below, 1e-8)
    update = torch._foreach_div(gradients, below)
    torch._foreach_add_(update, y, alpha=0.01)
    torch._foreach_lerp_(y, z, weight=mix)
    torch._foreach_add_(y, update, alpha=rate * (0.9 * (1 - mix) - 1))
    torch._foreach_sub_(z, update, alpha=rate)


def ctc_forward(logits, labels, lengths):
    never = -1e30
    steps, batch, states = logits.shape[0], labels.shape[0], 2 * labels.shape[1] + 1
    extended = torch.zeros((batch, states), dtype=labels.dtype)
    extended[:, 1::2] = labels
    emitted = torch.log_softmax(logits, -1).gather(2, extended[None].expand(steps, batch, states))
    later = extended[:, 2:]
    skips = F.pad((later != 0).logical_and(later != extended[:, :-2]), (2, 0), value=False)
    alpha = torch.full((batch, states), never, dtype=logits.dtype)
    alpha[:, :2] = emitted[0, :, :2]
    for t in range(1, steps):
        one = F.pad(alpha, (1, 0), value=never)[:, :-1]
        two = F.pad(alpha, (2, 0), value=never)[:, :-2]
        alpha = torch.logsumexp(torch.stack([alpha, one, torch.where(skips, two, never)]), 0) + emitted[t]
    ends = torch.stack([2 * lengths, 2 * lengths - 1], 1)
    loss = -torch.logsumexp(alpha.gather(1, ends), 1)
    return loss, (loss / lengths).mean()


def contrastive(images, texts, log_scale):
    scale = log_scale.exp()
    image_norm, text_norm = images.norm(2, 1, keepdim=True), texts.norm(2, 1, keepdim=True)
    a, b = images / image_norm, texts / text_norm
    logits = scale * (a @ b.t())
    by_row, by_column = torch.log_softmax(logits, 1), torch.log_softmax(logits, 0)
    loss = -0.5 * (by_row.diagonal().mean() + by_column.diagonal().mean())
    count = images.shape[0]
    gradient = (by_row.exp() + by_column.exp()) / (2 * count)
    gradient.diagonal().sub_(1 / count)
    by_a, by_b = scale * (gradient @ b), scale * (gradient.t() @ a)
    by_images = (by_a - a * (a * by_a).sum(1, keepdim=True)) / image_norm
    by_texts = (by_b - b * (b * by_b).sum(1, keepdim=True)) / text_norm
    return loss, by_images, by_texts, (gradient * logits).sum()


def awq_search(weights, activations, tries):
    losses, scales = [], []
    for i in range(tries):
        scale = activations.pow(i / tries).clamp_min(1e-4)
        scale = scale / (scale.max() * scale.min()).sqrt()
        groups = (weights * scale).view(-1, 64)
        top, low = groups.amax(1, keepdim=True), groups.amin(1, keepdim=True)
        step = (top - low).clamp_min(1e-5) / 15
        zero = (-torch.round(low / step)).clamp(0, 15)
        codes = (torch.round(groups / step) + zero).clamp(0, 15)
        restored = ((codes - zero) * step).view(weights.shape) / scale
        losses.append(((restored - weights) * activations).square().mean())
        scales.append(scale)
    together = torch.stack(losses)
    best = together.argmin()
    return together, torch.stack(scales).index_select(0, best.view(1)).squeeze(0)


def adaptive_norm(x, attended, modulation):
    part = modulation.chunk(6, 1)
    middle = x + part[2][:, None] * attended
    normal = F.layer_norm(middle, (x.shape[2],), eps=1e-6)
    return middle, normal * (1 + part[4][:, None]) + part[3][:, None]


def capped_window(scores, values, window):
    capped = torch.tanh(scores / 50) * 50
    tokens = scores.shape[1]
    visible = torch.ones((tokens, tokens), dtype=torch.bool).tril().triu(1 - window)
    masked = capped.masked_fill(visible.logical_not(), -torch.inf)
    return torch.bmm(torch.softmax(wide(masked), -1).to(values.dtype), values)


def combine_experts(rows, residual, experts, weights, count):
    flat = experts.view(-1)
    order = torch.argsort(flat, dim=-1, descending=False, stable=True)
    share = (weights / weights.sum(-1, keepdim=True)).view(-1)
    scaled = rows * share.index_select(0, order)[:, None]
    places = order.div(2, rounding_mode="floor")
    mixed = torch.zeros_like(residual).index_add_(0, places, scaled.to(residual.dtype))
    return residual + mixed, torch.bincount(flat, minlength=count).cumsum(0)


def mxfp4_quantise(x):
    blocks = x.float().view(-1, 32)
    largest = blocks.abs().amax(1, keepdim=True)
    exponent = (torch.bitwise_right_shift(largest.view(torch.int32), 23) - 2).clamp(1, 254)
    v = blocks / torch.bitwise_left_shift(exponent, 23).view(torch.float32)
    size = v.abs()
    coarse = torch.where(size < 4, size.round() + 2, ((size / 2).round() + 4).clamp_max(7))
    level = torch.where(size < 2, (size * 2).round(), coarse).to(torch.uint8)
    codes = torch.bitwise_or(level, torch.signbit(v).to(torch.uint8) * 8).view(x.shape[0], -1, 2)
    packed = torch.bitwise_or(codes[:, :, 0], torch.bitwise_left_shift(codes[:, :, 1], 4))
    return packed, exponent.to(torch.uint8).view(x.shape[0], -1)


def stochastic_average(averages, weights, noise):
    apart = []
    for average, weight, random in zip(averages, weights, noise):
        now = weight.float()
        moved = torch.lerp(average.float(), now, 0.005)
        bits = torch.bitwise_and(moved.view(torch.int32) + random, -65536)
        average.copy_(bits.view(torch.float32))
        apart.append((average.float() - now).abs().max())
    return torch.stack(apart)


def adam_8bit(parameter, gradient, first, first_scale, second, second_scale, levels, positive_levels):
    def load(codes, scale, book):
        return book.index_select(0, codes.view(-1).int()).view(codes.shape) * scale

    def store(x, codes, scale, book):
        scale.copy_(x.abs().amax(1, keepdim=True))
        codes.copy_(torch.bucketize(x / scale.clamp_min(1e-12), (book[1:] + book[:-1]) / 2))

    g = wide(gradient).view(first.shape)
    m = load(first, first_scale, levels) * 0.9 + g * 0.1
    v = load(second, second_scale, positive_levels) * 0.999 + g * g * 0.001
    update = (m / (v.sqrt() + 1e-8)).view(parameter.shape)
    parameter.copy_(wide(parameter) * (1 - 1e-5) - 1e-3 * update)
    store(m, first, first_scale, levels)
    store(v, second, second_scale, positive_levels)


def clipped_policy(logits, actions, before, advantages):
    log_p = torch.log_softmax(wide(logits), -1)
    p, index = log_p.exp(), actions[:, None]
    ratio = (log_p.gather(1, index).squeeze(1) - before).exp()
    gain = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    free, held = ratio * gain, ratio.clamp(0.8, 1.2) * gain
    entropy = -(p * log_p).sum(-1)
    loss = -torch.minimum(free, held).mean() - 0.01 * entropy.mean()
    count = logits.shape[0]
    slope = (torch.where(free <= held, -free, 0) / count)[:, None]
    by_logits = p * (0.01 / count * (log_p + entropy[:, None]) - slope)
    by_logits.scatter_add_(1, index, slope)
    outside = ((ratio - 1).abs() > 0.2).to(ratio.dtype).mean()
    return loss, by_logits.to(logits.dtype), outside


def delta_rule_case(batch=2, steps=24, heads=8, width=64):
    shape = batch, steps, heads, width
    r, k, v, removal = (torch.randn(shape) for _ in range(4))
    return delta_rule, (r, uniform(shape, -6, -1), k * 0.3, v, removal, uniform(shape))


def spline_layer_case(batch=2048, inputs=64, outputs=64):
    knots = (torch.arange(12, dtype=torch.float32) - 3) * 0.4 - 1 + uniform((inputs, 12), 0, 0.05)
    weight, splines = torch.randn(outputs, inputs) * 0.1, torch.randn(outputs, inputs, 8) * 0.1
    x = uniform((batch, inputs), -1, 1)
    return spline_layer, (x, knots, weight, splines, uniform((outputs, inputs)))


def diagonal_kernel_case(features=64, states=32, length=1024):
    shape = features, states
    log_step, log_real = uniform((features,), -6.9, -2.3), torch.randn(shape) * 0.1 - 0.7
    imaginary = 3.14159265 * torch.arange(states, dtype=torch.float32) + torch.randn(shape) * 0.1
    return diagonal_kernel, (log_step, log_real, imaginary, torch.randn(shape), torch.randn(shape), length)


def schedule_free_case(count=6, side=640):
    y, g, z = ([torch.randn(side, side) for _ in range(count)] for _ in range(3))
    return schedule_free_adamw, (y, g, z, [uniform((side, side), 0.001, 0.01) for _ in range(count)])


def ctc_forward_case(steps=48, batch=256, classes=96, labels=20):
    targets, lengths = integers((batch, labels), classes - 1) + 1, integers((batch,), labels) + 1
    return ctc_forward, (torch.randn(steps, batch, classes), targets, lengths)


def contrastive_case(batch=768, width=256):
    images = torch.randn(batch, width)
    return contrastive, (images, images + torch.randn(batch, width) * 2, torch.tensor(2.6593))


def awq_search_case(rows=512, groups=16, tries=6):
    return awq_search, (torch.randn(rows, 64 * groups) * 0.02, torch.randn(64 * groups).exp(), tries)


def adaptive_norm_case(batch=8, tokens=256, width=1152):
    x, attended = (torch.randn(batch, tokens, width).bfloat16() for _ in range(2))
    return adaptive_norm, (x, attended, (torch.randn(batch, 6 * width) * 0.3).bfloat16())


def capped_window_case(heads=8, tokens=512, width=64, window=128):
    scores = (torch.randn(heads, tokens, tokens) * 20).bfloat16()
    return capped_window, (scores, torch.randn(heads, tokens, width).bfloat16(), min(window, tokens))


def combine_experts_case(tokens=2048, width=1024, experts=8):
    rows, residual = torch.randn(2 * tokens, width).bfloat16(), torch.randn(tokens, width).bfloat16()
    first = integers((tokens,), experts)
    second = (first + 1 + integers((tokens,), experts - 1)).remainder(experts)
    chosen = torch.stack([first, second], 1)
    return combine_experts, (rows, residual, chosen, uniform((tokens, 2), 0.05, 1), experts)


def mxfp4_quantise_case(rows=1024, blocks=64):
    return mxfp4_quantise, (torch.randn(rows, blocks * 32).bfloat16(),)


def stochastic_average_case(count=4, side=768):
    averages, weights = ([torch.randn(side, side).bfloat16() for _ in range(count)] for _ in range(2))
    return stochastic_average, (averages, weights, [integers((side, side), 65536, torch.int32) for _ in range(count)])


def adam_8bit_case(blocks=2048):
    parameter, gradient = (torch.randn(256 * blocks).bfloat16() for _ in range(2))
    first, second = (integers((blocks, 256), 256, torch.uint8) for _ in range(2))
    first_scale, second_scale = (uniform((blocks, 1), 0.5, 1) for _ in range(2))
    line, positive = torch.linspace(-1, 1, 256), torch.linspace(1 / 256, 1, 256)
    books = line * line.abs(), positive.square()
    return adam_8bit, (parameter, gradient, first, first_scale, second, second_scale, *books)


def clipped_policy_case(tokens=512, vocabulary=4096):
    logits, actions = torch.randn(tokens, vocabulary).bfloat16(), integers((tokens,), vocabulary)
    now = torch.log_softmax(wide(logits), -1).gather(1, actions[:, None]).squeeze(1)
    return clipped_policy, (logits, actions, now + torch.randn(tokens) * 0.2, torch.randn(tokens))


CASES = {
    "delta_rule_f32": (delta_rule_case, {}),
    "spline_layer_f32": (spline_layer_case, {}),
    "diagonal_kernel_f32": (diagonal_kernel_case, {}),
    "schedule_free_adamw_f32": (schedule_free_case, {}),
    "ctc_forward_f32": (ctc_forward_case, {}),
    "contrastive_f32": (contrastive_case, {}),
    "awq_search_f32": (awq_search_case, {}),
    "adaptive_norm_bf16": (adaptive_norm_case, {}),
    "capped_window_bf16": (capped_window_case, {}),
    "combine_experts_bf16": (combine_experts_case, {}),
    "mxfp4_quantise_bf16": (mxfp4_quantise_case, {}),
    "stochastic_average_bf16": (stochastic_average_case, {}),
    "adam_8bit_bf16": (adam_8bit_case, {}),
    "clipped_policy_bf16": (clipped_policy_case, {}),
}
