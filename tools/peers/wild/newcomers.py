"""Newcomers: programs of many fields, from cameras and hashes to survival and boxes."""

import math

import torch
import torch.nn.functional as F

from .draw import integers, uniform


def demosaic(raw, gains, matrix, table):
    h, w = raw.shape
    lit = (raw.to(gains.dtype) - 64).clamp_min(0)
    balanced = (lit.view(h // 2, 2, w // 2, 2) * gains).view(1, h, w)
    padded = F.pad(balanced, (1, 1, 1, 1), mode="reflect").squeeze(0)

    def at(y, x):
        return padded[1 + y : y + h : 2, 1 + x : x + w : 2]

    picture = torch.empty(3, h, w)
    red, green, blue = picture.unbind(0)
    red[::2, ::2] = at(0, 0)
    red[::2, 1::2] = (at(0, 0) + at(0, 2)) / 2
    red[1::2, ::2] = (at(0, 0) + at(2, 0)) / 2
    red[1::2, 1::2] = (at(0, 0) + at(0, 2) + at(2, 0) + at(2, 2)) / 4
    green[::2, ::2] = (at(-1, 0) + at(1, 0) + at(0, -1) + at(0, 1)) / 4
    green[::2, 1::2] = at(0, 1)
    green[1::2, ::2] = at(1, 0)
    green[1::2, 1::2] = (at(0, 1) + at(2, 1) + at(1, 0) + at(1, 2)) / 4
    blue[::2, ::2] = (at(-1, -1) + at(-1, 1) + at(1, -1) + at(1, 1)) / 4
    blue[::2, 1::2] = (at(-1, 1) + at(1, 1)) / 2
    blue[1::2, ::2] = (at(1, -1) + at(1, 1)) / 2
    blue[1::2, 1::2] = at(1, 1)
    colours = torch.einsum("dc,chw->dhw", matrix, picture)
    return table[colours.round().clamp(0, 1023).long()]


def spread_bits(x):
    x = (x | x << 32) & 0x1F00000000FFFF
    x = (x | x << 16) & 0x1F0000FF0000FF
    x = (x | x << 8) & 0x100F00F00F00F00F
    x = (x | x << 4) & 0x10C30C30C30C30C3
    return (x | x << 2) & 0x1249249249249249


def morton_order(points):
    low, high = points.amin(0), points.amax(0)
    spread = spread_bits(((points - low) / (high - low) * 2097151).long())
    code = spread[:, 0] << 2 | spread[:, 1] << 1 | spread[:, 2]
    ordered, order = torch.sort(code, stable=True)
    rest = ordered[1:] ^ ordered[:-1]
    bits, step = torch.zeros_like(rest), 32
    while step > 0:
        high_part = rest >> step
        more = high_part > 0
        bits = bits + more.long() * step
        rest = torch.where(more, high_part, rest)
        step //= 2
    return order, ordered, bits + rest


def cart_pole(state, age, actions, fresh):
    time, pole, mass = 0.02, 0.05, 1.1
    x, speed, angle, turn = state.unbind(1)
    force = torch.where(actions == 1, 10.0, -10.0)
    sine, cosine = angle.sin(), angle.cos()
    pushed = (force + pole * turn.square() * sine) / mass
    turning = (9.8 * sine - cosine * pushed) / (0.5 * (4.0 / 3 - 0.1 * cosine.square() / mass))
    moving = pushed - pole * turning * cosine / mass
    following = torch.stack([x + time * speed, speed + time * moving, angle + time * turn, turn + time * turning], 1)
    age.add_(1)
    fell = (following[:, 0].abs() > 2.4) | (following[:, 2].abs() > 0.20943951)
    over = fell | (age >= 500)
    state.copy_(torch.where(over[:, None], fresh, following))
    age.masked_fill_(over, 0)
    return fell.logical_not().to(state.dtype), over


def mixed_bits(x):
    def folded(t):
        return t ^ (t >> 33 & 0x7FFFFFFF)

    x = folded(x) * (0xFF51AFD7ED558CCD - 2**64)
    x = folded(x) * (0xC4CEB9FE1A85EC53 - 2**64)
    return folded(x)


def bloom_filter(bits, added, asked):
    size, hashes = bits.shape[0], 7

    def places(items):
        first, second = mixed_bits(items), mixed_bits(items ^ 0x5BD1E995) | 1
        return (first[:, None] + torch.arange(hashes) * second[:, None]) & (size - 1)

    bits.index_fill_(0, places(added).flatten(), True)
    known = bits[places(asked)].all(1)
    share = bits.sum() / size
    return known, -(size / hashes) * torch.log1p(-share)


def variation_of(rows):
    mean = rows.mean(-1, keepdim=True)
    return (rows - mean).square().mean(-1).sqrt() / mean.squeeze(-1)


def bootstrap_interval(x, resamples, scores):
    others = x.shape[0] - 1
    whole, drawn = variation_of(x), variation_of(x[resamples])
    bias = torch.special.ndtri((drawn < whole).to(x.dtype).mean())
    mean = (x.sum() - x) / others
    variance = (x.square().sum() - x.square()) / others - mean.square()
    without = variance.sqrt() / mean
    apart = without.mean() - without
    acceleration = apart.pow(3).sum() / (6 * apart.square().sum().pow(1.5))
    z = bias + scores
    levels = torch.special.ndtr(bias + z / (1 - acceleration * z))
    return torch.quantile(drawn, levels), bias, acceleration


def mixture_step(weights, means, variances, x):
    width = x.shape[1]
    precise, squares = variances.reciprocal(), x.square()
    far = squares @ precise.t() - 2 * (x @ (means * precise).t()) + (means.square() * precise).sum(1)
    joint = weights.log() - 0.5 * (far + variances.log().sum(1) + width * math.log(2 * math.pi))
    whole = joint.logsumexp(1, keepdim=True)
    share = (joint - whole).exp()
    count = share.sum(0) + 1e-10
    weights.copy_(count / x.shape[0])
    means.copy_(share.t() @ x / count[:, None])
    variances.copy_(share.t() @ squares / count[:, None] - means.square() + 1e-6)
    return whole.mean()


def hazard_step(weights, people, times, events):
    rate, penalty = 0.1, 0.01
    order = times.argsort(0, descending=True)
    x = people.index_select(0, order)
    event = events.index_select(0, order).to(x.dtype)
    risk = x @ weights
    at_risk = risk.logcumsumexp(0)
    count = event.sum()
    loss = -((risk - at_risk) * event).sum() / count
    hazard = (event * (-at_risk).exp()).flip(0).cumsum(0).flip(0)
    gradient = x.t() @ (risk.exp() * hazard - event) / count
    moved = weights - rate * gradient
    weights.copy_(moved.sign() * (moved.abs() - rate * penalty).clamp_min(0))
    return loss


def categorical_loss(logits, actions, rewards, ended, following, slow_following, atoms):
    batch, count = logits.shape[0], atoms.shape[0]

    def of_action(everything, action):
        return everything.gather(1, action.view(batch, 1, 1).expand(batch, 1, count)).squeeze(1)

    best = (torch.softmax(following, -1) * atoms).sum(-1).argmax(1)
    likely = of_action(torch.softmax(slow_following, -1), best)
    left = ended.logical_not().to(atoms.dtype)[:, None]
    moved = (rewards[:, None] + 0.99 * left * atoms).clamp(-10, 10)
    place = (moved + 10) / (20.0 / (count - 1))
    lower = place.floor().long().clamp(0, count - 1)
    upper = (lower + 1).clamp_max(count - 1)
    above, target = place - lower, torch.zeros_like(likely)
    start = torch.arange(batch)[:, None] * count
    target.view(-1).index_add_(0, (lower + start).view(-1), (likely * (1 - above)).view(-1))
    target.view(-1).index_add_(0, (upper + start).view(-1), (likely * above).view(-1))
    each = -(target * F.log_softmax(of_action(logits, actions), -1)).sum(-1)
    return each.mean(), each


def average_precision(scores, labels):
    count = scores.shape[0]
    order = scores.argsort(0, descending=True)
    hit = labels.gather(0, order).to(scores.dtype)
    found = hit.cumsum(0)
    present = found[-1]
    place = torch.arange(1, count + 1, dtype=scores.dtype)[:, None]
    precision = (found / place * hit).sum(0) / present.clamp_min(1)
    ranks = (hit * (count + 1 - place)).sum(0)
    absent = count - present
    return precision, (ranks - present * (present + 1) / 2) / (present * absent).clamp_min(1)


def matrix_suppression(masks, classes, scores):
    seen = masks > 0.5
    area = seen.sum((1, 2)).to(masks.dtype)
    sure = (masks * seen).sum((1, 2)) / area.clamp_min(1)
    best, order = (scores * sure).sort(0, descending=True)
    flat = seen.index_select(0, order).flatten(1).to(masks.dtype)
    sizes, kind = area.index_select(0, order), classes.index_select(0, order)
    shared = flat @ flat.t()
    overlap = shared / (sizes[:, None] + sizes - shared).clamp_min(1)
    same = (kind[:, None] == kind).to(masks.dtype)
    decayed = (overlap * same).triu(1)
    most = decayed.amax(0)[:, None]
    factor = (-2 * (decayed.square() - most.square())).exp().amin(0)
    updated = best * factor
    return updated, best, updated >= 0.05


def demosaic_case(high=270, wide=480):
    gains = torch.tensor([1.9, 1.0, 1.0, 1.6]).view(2, 1, 2)
    matrix = torch.tensor([[1.61, -0.42, -0.19], [-0.27, 1.48, -0.21], [0.03, -0.57, 1.54]])
    level = torch.linspace(0, 1, 1024)
    coded = torch.where(level <= 0.0031308, 12.92 * level, 1.055 * level.pow(1 / 2.4) - 0.055)
    raw = integers((2 * high, 2 * wide), 1024, torch.int16)
    return demosaic, (raw, gains, matrix, (255 * coded + 0.5).to(torch.uint8))


def morton_order_case(points=65536):
    return morton_order, (torch.randn(points, 3),)


def cart_pole_case(carts=512):
    state, fresh = (uniform((carts, 4), -0.05, 0.05) for _ in range(2))
    return cart_pole, (state, integers((carts,), 100), integers((carts,), 2), fresh)


def bloom_filter_case(log_bits=22, items=65536):
    bits, added = torch.rand(2**log_bits) < 0.05, integers((items,), 2**40)
    asked = torch.where(torch.rand(items) < 0.5, added.flip(0), integers((items,), 2**40))
    return bloom_filter, (bits, added, asked)


def bootstrap_interval_case(count=512, resamples=4000):
    x = -(1 - torch.rand(count).double()).log()
    scores = torch.tensor([-1.959963984540054, 1.959963984540054], dtype=torch.float64)
    return bootstrap_interval, (x, integers((resamples, count), count), scores)


def mixture_step_case(count=4096, width=16, kinds=24):
    centres = 2 * torch.randn(kinds, width).double()
    x = centres[integers((count,), kinds)] + torch.randn(count, width).double()
    means = centres + torch.randn(kinds, width).double()
    weights = torch.full((kinds,), 1 / kinds, dtype=torch.float64)
    return mixture_step, (weights, means, torch.ones_like(means), x)


def hazard_step_case(people=2048, width=32):
    data = torch.randn(people, width).double(), uniform((people,), 0.1, 10).double(), torch.rand(people) < 0.7
    return hazard_step, (0.1 * torch.randn(width).double(), *data)


def categorical_loss_case(batch=32, actions=6):
    atoms = 51
    logits, following, slow = (torch.randn(batch, actions, atoms) for _ in range(3))
    taken = integers((batch,), actions), torch.randn(batch), torch.rand(batch) < 0.1
    return categorical_loss, (logits, *taken, following, slow, torch.linspace(-10, 10, atoms))


def average_precision_case(samples=1024, classes=64):
    labels = torch.rand(samples, classes) < 0.2
    return average_precision, (torch.randn(samples, classes) + labels.float(), labels)


def matrix_suppression_case(instances=96, height=56, width=72):
    # Discs, soft at their rims.
    down, across = torch.arange(float(height)).view(height, 1) / height, torch.arange(float(width)) / width
    y, x, radius = (uniform((instances, 1, 1), *ends) for ends in ((0, 1), (0, 1), (0.1, 0.4)))
    masks = torch.sigmoid(20 * (radius - ((down - y).square() + (across - x).square()).sqrt()))
    return matrix_suppression, (masks, integers((instances,), 4), uniform((instances,), 0.1, 1))


CASES = {
    "demosaic_i16": (demosaic_case, {}),
    "morton_order_i64": (morton_order_case, {}),
    "cart_pole_step_f32": (cart_pole_case, {}),
    "bloom_filter_i64": (bloom_filter_case, {}),
    "bootstrap_interval_f64": (bootstrap_interval_case, {}),
    "mixture_step_f64": (mixture_step_case, {}),
    "hazard_step_f64": (hazard_step_case, {}),
    "categorical_loss_f32": (categorical_loss_case, {}),
    "average_precision_f32": (average_precision_case, {}),
    "matrix_suppression_f32": (matrix_suppression_case, {}),
}
