"""Drifters: boxes, maps, sounds, games and searches, some of which go on until they are done."""

import math

import torch
import torch.nn.functional as F

from .draw import integers, uniform


def greedy_boxes(boxes, scores, classes):
    apart = boxes + (classes * (boxes.max() + 1))[:, None]
    areas = (apart[:, 2:] - apart[:, :2]).prod(1)
    order = scores.argsort(descending=True)
    order = order[scores[order] > 0.2]
    kept = []
    while order.numel() > 0:
        best, rest = order[0].item(), order[1:]
        kept.append(best)
        low, high = torch.maximum(apart[best, :2], apart[rest, :2]), torch.minimum(apart[best, 2:], apart[rest, 2:])
        shared = (high - low).clamp_min(0).prod(1)
        order = rest[shared / (areas[best] + areas[rest] - shared) <= 0.5]
    return torch.tensor(kept)


def label_regions(mask, least):
    height, width = mask.shape
    inside = mask.float()[None, None]
    labels = torch.arange(1.0, height * width + 1).view(1, 1, height, width) * inside
    while True:
        grown = F.max_pool2d(labels, 3, 1, 1) * inside
        if torch.equal(grown, labels):
            break
        labels = grown
    _, number, sizes = torch.unique(labels.long().view(height, width), return_inverse=True, return_counts=True)
    large = (sizes[number] >= least) & mask
    _, number = torch.unique(torch.where(large, number, 0), return_inverse=True)
    return number, torch.bincount(number.flatten())


def dynamic_pillars(points, ends, weight, scale, shift, side):
    low, high = ends.unbind(0)
    place = points[:, :3]
    points = points[((place >= low) & (place < high)).all(1)]
    size = (high - low)[:2] / side
    cell = ((points[:, :2] - low[:2]) / size).floor().long().clamp(0, side - 1)
    pillars, inverse, counts = torch.unique(cell[:, 0] * side + cell[:, 1], return_inverse=True, return_counts=True)
    sums = torch.zeros(pillars.shape[0], 3, dtype=points.dtype).index_add_(0, inverse, points[:, :3])
    from_mean = points[:, :3] - (sums / counts[:, None])[inverse]
    from_centre = points[:, :2] - ((cell + 0.5) * size + low[:2])
    features = F.linear(torch.cat([points, from_mean, from_centre], 1), weight)
    x = torch.relu(features * scale + shift)
    most = torch.zeros(pillars.shape[0], x.shape[1], dtype=x.dtype)
    most.scatter_reduce_(0, inverse[:, None].expand_as(x), x, "amax", include_self=False)
    canvas = torch.zeros(x.shape[1], side * side, dtype=x.dtype)
    canvas[:, pillars] = most.t()
    return canvas.view(-1, side, side)


def rebuild_phase(magnitudes, phases, window, steps):
    size, hop = window.shape[0], window.shape[0] // 4
    angles, before = torch.polar(torch.ones_like(phases), phases), torch.zeros((), dtype=torch.complex64)
    for _ in range(steps):
        signal = torch.istft(magnitudes * angles, size, hop, size, window)
        rebuilt = torch.stft(signal, size, hop, size, window, return_complex=True)
        angles = rebuilt - before * (0.99 / 1.99)
        angles = angles / (angles.abs() + 1e-16)
        before = rebuilt
    return torch.istft(magnitudes * angles, size, hop, size, window)


def rna_pairs(letters, scores):
    batch, length = letters.shape
    gains = scores[letters[:, :, None], letters[:, None]]
    best = [torch.zeros(batch, length - span, dtype=scores.dtype) for span in range(4)]
    for span in range(4, length):
        count = length - span
        paired = best[span - 2][:, 1 : count + 1] + gains.diagonal(span, 1, 2)
        left = torch.stack([best[k][:, :count] for k in range(span)])
        right = torch.stack([best[span - k - 1][:, k + 1 : k + 1 + count] for k in range(span)])
        best.append(torch.maximum(paired, (left + right).amax(0)))
    return best[-1].squeeze(1), torch.cat(best, 1)


def life_board(board, steps):
    alive = []
    for _ in range(steps):
        row = board + board.roll(1, 0) + board.roll(-1, 0)
        around = row + row.roll(1, 1) + row.roll(-1, 1) - board
        following = ((around == 3) | (around == 2) & (board == 1)).to(torch.uint8)
        if torch.equal(following, board):
            break
        alive.append(following.sum())
        board = following
    return torch.stack(alive), board


def landmark_update(state, covariance, control, observations, ids, seen):
    x, p, known = state.clone(), covariance.clone(), seen.clone()
    size, time = x.shape[0], 0.1
    noise = torch.tensor([0.01, 0.001], dtype=x.dtype).diag()
    # The robot moves.
    along = control[0] * time
    turn = torch.eye(size, dtype=x.dtype)
    turn[0, 2] = -along * x[2].sin()
    turn[1, 2] = along * x[2].cos()
    p = turn @ p @ turn.t()
    p[:3, :3] += 1e-3 * torch.eye(3, dtype=x.dtype)
    x[:3] += torch.stack([along * x[2].cos(), along * x[2].sin(), control[1] * time])
    # It sees landmarks, one after another.
    for k in range(ids.shape[0]):
        mark = ids[k].item()
        start = 3 + 2 * mark
        distance, bearing = observations[k]
        if not known[mark].item():
            angle = x[2] + bearing
            x[start : start + 2] = x[:2] + distance * torch.stack([angle.cos(), angle.sin()])
            known[mark] = True
            continue
        apart = x[start : start + 2] - x[:2]
        square = apart.dot(apart)
        root = square.sqrt()
        by = torch.stack([apart / root, torch.stack([-apart[1], apart[0]]) / square])
        h = torch.zeros(2, size, dtype=x.dtype)
        h[:, :2] = -by
        h[1, 2] = -1
        h[:, start : start + 2] = by
        off = bearing - (torch.atan2(apart[1], apart[0]) - x[2])
        error = torch.stack([distance - root, torch.remainder(off + math.pi, 2 * math.pi) - math.pi])
        hp = h @ p
        s = hp @ h.t() + noise
        if error.dot(torch.linalg.solve(s, error)).item() > 13.8:
            continue
        gain = torch.linalg.solve(s, hp).t()
        x += gain @ error
        p = p - gain @ hp
        p = 0.5 * (p + p.t())
    return x, p, known


def auction(values):
    count = values.shape[0]
    prices, owned = torch.zeros(count, dtype=values.dtype), torch.full((count,), -1)
    while (owned < 0).any():
        free = (owned < 0).nonzero().squeeze(1)
        best, which = (values[free] - prices).topk(2, 1)
        rise = best[:, 0] - best[:, 1] + 1 / count
        bids = torch.zeros(free.shape[0], count, dtype=values.dtype).scatter_(1, which[:, :1], rise[:, None])
        wanted = (bids > 0).any(0).nonzero().squeeze(1)
        high, bidder = bids[:, wanted].max(0)
        prices.index_add_(0, wanted, high)
        owned[torch.isin(owned, wanted)] = -1
        owned[free[bidder]] = wanted
    return owned, prices, values.gather(1, owned[:, None]).sum()


def neighbour_embedding(y, velocity, gains, likely):
    squares = y.square().sum(1)
    kernel = 1 / (1 + squares[:, None] + squares - 2 * (y @ y.t()))
    kernel.fill_diagonal_(0)
    q = (kernel / kernel.sum()).clamp_min(1e-12)
    pull = (likely - q) * kernel
    gradient = 4 * (pull.sum(1, keepdim=True) * y - pull @ y)
    gains.copy_(torch.where(gradient.sign() != velocity.sign(), gains + 0.2, gains * 0.8).clamp_min(0.01))
    velocity.mul_(0.5).sub_(gains * gradient, alpha=100)
    y.add_(velocity)
    y.sub_(y.mean(0))
    return (likely * (likely / q).log()).sum()


def implied_volatility(prices, spots, strikes, times, rate):
    roots, forward = times.sqrt(), spots * (rate * times).exp()
    discount, moneyness = (-rate * times).exp(), (forward / strikes).log()
    sigma = torch.full_like(prices, 0.5)
    for _ in range(50):
        d = moneyness / (sigma * roots) + 0.5 * sigma * roots
        worth = discount * (forward * torch.special.ndtr(d) - strikes * torch.special.ndtr(d - sigma * roots))
        vega = discount * forward * (-0.5 * d.square()).exp() * (roots / math.sqrt(2 * math.pi))
        error = worth - prices
        if error.abs().max().item() < 1e-8:
            break
        sigma = (sigma - error / vega.clamp_min(1e-8)).clamp(0.01, 4)
    return sigma


def knapsack(weights, values, capacity):
    best = torch.zeros(weights.shape[0], capacity + 1, dtype=values.dtype)
    room, taken = torch.arange(capacity + 1), []
    for i in range(weights.shape[1]):
        left = room - weights[:, i, None]
        more = best.gather(1, left.clamp_min(0)) + values[:, i, None]
        taken.append((left >= 0) & (more > best))
        best = torch.where(taken[-1], more, best)
    room = torch.full((weights.shape[0], 1), capacity)
    chosen = torch.zeros_like(weights, dtype=torch.bool)
    for i in reversed(range(weights.shape[1])):
        take = taken[i].gather(1, room)
        chosen[:, i : i + 1] = take
        room = room - take * weights[:, i, None]
    return best[:, -1], chosen


def rating_rounds(ratings, played, pairs, results):
    for games, result in zip(pairs, results):
        ours, theirs = ratings[games[:, 0]], ratings[games[:, 1]]
        expected = 1 / (1 + torch.pow(10, (theirs - ours) / 400))
        steps = torch.where(played[games] < 30, 40.0, torch.where(ratings[games] > 2400, 10.0, 20.0))
        off = result - expected
        ratings.index_add_(0, games[:, 0], steps[:, 0] * off)
        ratings.index_add_(0, games[:, 1], -steps[:, 1] * off)
        played.index_add_(0, games.flatten(), torch.ones_like(games).flatten())
    return ratings.topk(10)


def stein_step(particles, squares, x, labels):
    count = particles.shape[0]
    off = labels - torch.sigmoid(particles @ x.t())
    score = off @ x - particles
    apart = torch.cdist(particles, particles).square()
    width = apart.median() / math.log(count + 1)
    kernel = (-apart / width).exp()
    pushed = kernel.sum(1, keepdim=True) * particles - kernel @ particles
    step = (kernel @ score + 2 / width * pushed) / count
    squares.mul_(0.9).addcmul_(step, step, value=0.1)
    particles.addcdiv_(step, squares.sqrt() + 1e-6, value=0.01)


def lovasz_loss(logits, labels):
    classes = logits.shape[1]
    likely = logits.softmax(1).movedim(1, -1).reshape(-1, classes)
    kinds, losses = labels.flatten(), []
    for c in range(classes):
        mine = (kinds == c).to(likely.dtype)
        if not mine.any():
            continue
        errors, order = (mine - likely[:, c]).abs().sort(descending=True)
        truth = mine[order]
        within = truth.sum() - truth.cumsum(0)
        jaccard = 1 - within / (truth.sum() + (1 - truth).cumsum(0))
        jaccard[1:] = jaccard[1:] - jaccard[:-1]
        losses.append(errors.dot(jaccard))
    return torch.stack(losses).mean()


def greedy_boxes_case(objects=80, around=8):
    count = objects * around
    middles, half = uniform((objects, 1, 2), 0, 640), uniform((objects, 1, 2), 10, 60)
    off, grown = torch.randn(objects, around, 2), uniform((objects, around, 2), 0.8, 1.2)
    middles, half = (middles + 0.2 * half * off).view(count, 2), (half * grown).view(count, 2)
    kinds = integers((objects, 1), 4).expand(objects, around).reshape(count)
    return greedy_boxes, (torch.cat([middles - half, middles + half], 1), torch.rand(count), kinds)


def label_regions_case(height=96, width=128, least=24):
    noise = F.avg_pool2d(torch.rand(1, 1, height + 8, width + 8), 9, 1)
    return label_regions, ((noise > 0.5).view(height, width), least)


def dynamic_pillars_case(points=20000, side=80, width=32):
    distance, angle = 40 * torch.rand(points).square() + 1, uniform((points,), -math.pi, math.pi)
    place = torch.stack([distance * angle.cos(), distance * angle.sin(), torch.randn(points) - 1], 1)
    cloud = torch.cat([place, torch.rand(points, 1)], 1)
    ends = torch.tensor([[-32.0, -32, -3], [32, 32, 1]])
    weight = 0.3 * torch.randn(width, 9)
    return dynamic_pillars, (cloud, ends, weight, uniform((width,), 0.5, 1.5), 0.1 * torch.randn(width), side)


def rebuild_phase_case(batch=2, frames=64, size=512, steps=8):
    bins = size // 2 + 1
    magnitudes = torch.randn(batch, bins, frames).exp()
    phases = uniform((batch, bins, frames), -math.pi, math.pi)
    return rebuild_phase, (magnitudes, phases, torch.hann_window(size), steps)


def rna_pairs_case(batch=64, length=40):
    scores = torch.full((4, 4), -1000, dtype=torch.int32)
    for a, b, score in (0, 3, 2), (1, 2, 3), (2, 3, 1):
        scores[a, b] = scores[b, a] = score
    return rna_pairs, (integers((batch, length), 4), scores)


def life_board_case(height=192, width=256, steps=48):
    return life_board, (integers((height, width), 2, torch.uint8), steps)


def landmark_update_case(marks=96, seen=16):
    size = 3 + 2 * marks
    places = uniform((marks, 2), -20, 20).double()
    known = torch.rand(marks) < 0.8
    state = torch.cat([torch.zeros(3), (places + 0.2 * torch.randn(marks, 2).double()).view(-1)])
    mixed = 0.02 * torch.randn(size, 8).double()
    covariance = 0.04 * torch.eye(size).double() + mixed @ mixed.t()
    ids = integers((seen,), marks)
    chosen = places[ids]
    observations = torch.stack([chosen.norm(dim=1), torch.atan2(chosen[:, 1], chosen[:, 0])], 1)
    observations = observations + torch.tensor([0.1, 0.03]) * torch.randn(seen, 2)
    # Some are of something else.
    observations[:, 0] += 6 * (torch.rand(seen) < 0.2)
    return landmark_update, (state, covariance, torch.tensor([1.0, 0.2]).double(), observations, ids, known)


def auction_case(count=48):
    return auction, (100 * torch.rand(count, count).double(),)


def neighbour_embedding_case(points=640):
    x = torch.randn(points, 8)
    near = (-torch.cdist(x, x)).exp()
    near.fill_diagonal_(0)
    y, velocity = torch.randn(points, 2), 0.01 * torch.randn(points, 2)
    likely = (near / near.sum()).clamp_min(1e-12)
    return neighbour_embedding, (y, velocity, uniform((points, 2), 0.5, 1.5), likely)


def implied_volatility_case(options=8192):
    spots = uniform((options,), 80, 120).double()
    strikes, times = spots * uniform((options,), 0.8, 1.25), uniform((options,), 0.1, 2).double()
    rate, sigma = torch.tensor(0.03).double(), uniform((options,), 0.1, 0.8)
    forward, wide = spots * (rate * times).exp(), sigma * times.sqrt()
    d = (forward / strikes).log() / wide + 0.5 * wide
    prices = (-rate * times).exp() * (forward * torch.special.ndtr(d) - strikes * torch.special.ndtr(d - wide))
    return implied_volatility, (prices, spots, strikes, times, rate)


def knapsack_case(batch=64, items=40, capacity=400):
    return knapsack, (1 + integers((batch, items), 50), integers((batch, items), 1000), capacity)


def rating_rounds_case(players=4096, rounds=32, games=512):
    ratings, played = (1500 + 200 * torch.randn(players)).double(), integers((players,), 60)
    pairs = integers((rounds, games, 2), players)
    return rating_rounds, (ratings, played, pairs, integers((rounds, games), 3).double() / 2)


def stein_step_case(particles=384, samples=512, width=32):
    x, start = torch.randn(samples, width), 0.3 * torch.randn(particles, width)
    return stein_step, (start, torch.rand(particles, width), x, integers((samples,), 2).float())


def lovasz_loss_case(batch=1, classes=12, height=96, width=96):
    # Some classes are seldom there.
    labels = (torch.rand(batch, height, width).pow(3) * classes).long()
    return lovasz_loss, (torch.randn(batch, classes, height, width), labels)


CASES = {
    "greedy_boxes_f32": (greedy_boxes_case, {}),
    "label_regions_i64": (label_regions_case, {}),
    "dynamic_pillars_f32": (dynamic_pillars_case, {}),
    "rebuild_phase_f32": (rebuild_phase_case, {}),
    "rna_pairs_i32": (rna_pairs_case, {}),
    "life_board_u8": (life_board_case, {}),
    "landmark_update_f64": (landmark_update_case, {}),
    "auction_f64": (auction_case, {}),
    "implied_volatility_f64": (implied_volatility_case, {}),
    "knapsack_i64": (knapsack_case, {}),
    "rating_rounds_f64": (rating_rounds_case, {}),
    "stein_step_f32": (stein_step_case, {}),
    "lovasz_loss_f32": (lovasz_loss_case, {}),
    "neighbour_embedding_f32": (neighbour_embedding_case, {}),
}
