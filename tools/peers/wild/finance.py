"""Finance: prices, paths, rolling statistics."""

import math

import torch

from .draw import uniform

RATE = 0.03


def normal_cdf(x):
    return 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def black_scholes(spot, strike, years, volatility):
    root = years.sqrt()
    spread = volatility * root
    d1 = ((spot / strike).log() + (RATE + 0.5 * volatility * volatility) * years) / spread
    d2, paid = d1 - spread, strike * (-RATE * years).exp()
    call = spot * normal_cdf(d1) - paid * normal_cdf(d2)
    density = (-0.5 * d1 * d1).exp() / math.sqrt(2 * math.pi)
    return call, call - spot + paid, spot * density * root


def asian_option(normals):
    paths, count = normals.shape
    dt, volatility = 1 / count, 0.2
    steps = (RATE - 0.5 * volatility * volatility) * dt + volatility * math.sqrt(dt) * normals
    prices = 100 * steps.cumsum(1).exp()
    payoff = (prices.mean(1) - 100).clamp_min(0) * math.exp(-RATE)
    return payoff.mean(), payoff.std() / math.sqrt(paths)


def heston(normals):
    dt = 1 / normals.shape[0]
    log_price = torch.zeros_like(normals[0, 0])
    variance = torch.full_like(log_price, 0.04)
    for z, free in normals:
        positive = variance.clamp_min(0)
        deviation = positive.sqrt() * math.sqrt(dt)
        log_price = log_price + (RATE - 0.5 * positive) * dt + deviation * z
        variance = variance + 1.5 * (0.04 - positive) * dt + 0.3 * deviation * (-0.7 * z + 0.714 * free)
    return 100 * log_price.exp(), variance


def rolling_score(returns, window):
    def rolling(x):
        total = x.cumsum(0)
        return (total[window:] - total[:-window]) / window

    mean = rolling(returns)
    variance = rolling(returns * returns) - mean * mean
    return (returns[window:] - mean) / variance.clamp_min(1e-10).sqrt()


def american_put(spot, volatility, steps):
    dt = 1 / steps
    discount = math.exp(-RATE * dt)
    spread = volatility * math.sqrt(dt)
    up = spread.exp()
    down = 1 / up
    p = ((1 / discount - down) / (up - down))[:, None]
    level = torch.arange(-steps, steps + 1, dtype=spot.dtype)
    exercise = (100 - spot[:, None] * (spread[:, None] * level).exp()).clamp_min(0)
    value = exercise[:, ::2]
    for step in reversed(range(steps)):
        held = (p * value[:, 1:] + (1 - p) * value[:, :-1]) * discount
        value = torch.maximum(held, exercise[:, steps - step : steps + step + 1 : 2])
    return value.squeeze(1)


def black_scholes_case(options=4194304):
    ranges = (50, 150), (50, 150), (0.1, 2), (0.1, 0.5)
    return black_scholes, tuple(uniform((options,), *between) for between in ranges)


def asian_option_case(paths=65536, steps=64):
    return asian_option, (torch.randn(paths, steps),)


def heston_case(paths=65536, steps=32):
    return heston, (torch.randn(steps, 2, paths),)


def rolling_score_case(days=1024, assets=4096, window=20):
    return rolling_score, (torch.randn(days, assets) * 0.01, window)


def american_put_case(options=4096, steps=32):
    return american_put, (uniform((options,), 70, 130), uniform((options,), 0.15, 0.5), steps)


CASES = {
    "black_scholes_f32": (black_scholes_case, {}),
    "asian_option_f32": (asian_option_case, {}),
    "heston_f32": (heston_case, {}),
    "rolling_score_f32": (rolling_score_case, {}),
    "american_put_f32": (american_put_case, {}),
}
