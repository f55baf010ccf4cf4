"""Recurrences over time, step by step as users write them."""

import torch

from .draw import uniform


def weighted_key_value(k, v, decay, bonus):
    out = torch.empty_like(v)
    above = torch.zeros_like(k[:, 0])
    below, highest = torch.zeros_like(above), torch.full_like(above, -1e30)
    for t in range(k.shape[1]):
        key, value = k[:, t], v[:, t]
        now = key + bonus
        top = torch.maximum(highest, now)
        past, fresh = (highest - top).exp(), (now - top).exp()
        out[:, t] = (past * above + fresh * value) / (past * below + fresh)
        decayed = highest - decay
        highest = torch.maximum(decayed, key)
        kept, added = (decayed - highest).exp(), (key - highest).exp()
        above = kept * above + added * value
        below = kept * below + added
    return out


def kalman_filter(series, level_noise, trend_noise, noise):
    levels = torch.empty_like(series)
    level, trend = series[0], torch.zeros_like(series[0])
    p11, p12, p22 = torch.ones_like(level), torch.zeros_like(level), torch.ones_like(level)
    likelihood = torch.zeros_like(level)
    for t in range(series.shape[0]):
        level = level + trend
        p11 = p11 + 2 * p12 + p22 + level_noise
        p12 = p12 + p22
        p22 = p22 + trend_noise
        error, spread = series[t] - level, p11 + noise
        gain, trend_gain = p11 / spread, p12 / spread
        level = level + gain * error
        trend = trend + trend_gain * error
        p22 = p22 - trend_gain * p12
        p12 = (1 - gain) * p12
        p11 = (1 - gain) * p11
        likelihood = likelihood - 0.5 * (spread.log() + error * error / spread)
        levels[t] = level
    return levels, likelihood


def viterbi(emissions, transitions):
    score, origins = emissions[:, 0], []
    for t in range(1, emissions.shape[1]):
        best, tag = (score[:, :, None] + transitions).max(1)
        score = best + emissions[:, t]
        origins.append(tag)
    total, last = score.max(1, keepdim=True)
    path = [last]
    for tag in reversed(origins):
        path.insert(0, tag.gather(1, path[0]))
    return torch.cat(path, 1), total.squeeze(1)


def selective_scan(x, steps, rates, inputs, outputs):
    state = torch.zeros((x.shape[0], x.shape[2], rates.shape[1]), dtype=x.dtype)
    y = []
    for t in range(x.shape[1]):
        step = steps[:, t, :, None]
        driven = step * inputs[:, t, None] * x[:, t, :, None]
        state = (step * rates).exp() * state + driven
        y.append((state * outputs[:, t, None]).sum(-1))
    return torch.stack(y, 1)


def advantages(rewards, values, ends, after):
    out, running, following = torch.zeros_like(rewards), torch.zeros_like(after), after
    for t in reversed(range(rewards.shape[0])):
        going, value = 1 - ends[t], values[t]
        surprise = rewards[t] + 0.99 * following * going - value
        running = surprise + 0.99 * 0.95 * going * running
        out[t] = running
        following = value
    return (out - out.mean()) / (out.std() + 1e-8), out + values


def weighted_key_value_case(batch=32, steps=32, width=2048):
    k, v = torch.randn(batch, steps, width), torch.randn(batch, steps, width)
    return weighted_key_value, (k, v, uniform((width,), 0.1, 2), torch.randn(width))


def kalman_filter_case(steps=32, series=65536):
    walks = (torch.randn(steps, series) * 0.3).cumsum(0)
    return kalman_filter, (walks, *(uniform((series,), 0.01, high) for high in (0.2, 0.05, 1)))


def viterbi_case(batch=64, steps=24, tags=32):
    return viterbi, (torch.randn(batch, steps, tags), torch.randn(tags, tags))


def selective_scan_case(batch=2, steps=32, width=512, states=16):
    x, step = torch.randn(batch, steps, width), uniform((batch, steps, width), 0.001, 0.1)
    ends = torch.randn(batch, steps, states), torch.randn(batch, steps, states)
    return selective_scan, (x, step, -uniform((width, states), 1, 16), *ends)


def advantages_case(steps=64, environments=2048):
    rewards, values = torch.randn(steps, environments), torch.randn(steps, environments)
    ends = (uniform((steps, environments)) < 0.02).float()
    return advantages, (rewards, values, ends, torch.randn(environments))


CASES = {
    "weighted_key_value_f32": (weighted_key_value_case, {}),
    "kalman_filter_f32": (kalman_filter_case, {}),
    "viterbi_f32": (viterbi_case, {}),
    "selective_scan_f32": (selective_scan_case, {}),
    "advantages_f32": (advantages_case, {}),
}
