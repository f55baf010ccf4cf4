"""Science and decisions: equations, statistics, graphs, tokens."""

import math

import torch
import torch.nn.functional as F

from .draw import integers, uniform, wide

END_OF_TEXT = 2


def lorenz_slope(state, rho):
    x, y, z = state.unbind(-1)
    return torch.stack([10 * (y - x), x * (rho - z) - y, x * y - 8 / 3 * z], -1)


def lorenz_paths(start, rho, steps):
    h = 0.01
    state, highest = start, start[..., 2]
    for _ in range(steps):
        k1 = lorenz_slope(state, rho)
        k2 = lorenz_slope(state + 0.5 * h * k1, rho)
        k3 = lorenz_slope(state + 0.5 * h * k2, rho)
        k4 = lorenz_slope(state + h * k3, rho)
        state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        highest = torch.maximum(highest, state[..., 2])
    return state, highest


def thomas(lower, diagonal, upper, right):
    n = diagonal.shape[0]
    ratio, x = torch.empty_like(upper), torch.empty_like(right)
    ratio[0] = upper[0] / diagonal[0]
    x[0] = right[0] / diagonal[0]
    for i in range(1, n):
        pivot = diagonal[i] - lower[i] * ratio[i - 1]
        ratio[i] = upper[i] / pivot
        x[i] = (right[i] - lower[i] * x[i - 1]) / pivot
    for i in reversed(range(n - 1)):
        x[i].sub_(ratio[i] * x[i + 1])
    return x


def conjugate_gradient(matrices, right, steps):
    scale = matrices.diagonal(0, 1, 2).reciprocal()
    x, r = torch.zeros_like(right), right
    p = r * scale
    product = (r * p).sum(-1, keepdim=True)
    norms = [r.norm(2, -1)]
    for _ in range(steps):
        image = torch.bmm(matrices, p[..., None]).squeeze(-1)
        alpha = product / (p * image).sum(-1, keepdim=True)
        x = x + alpha * p
        r = r - alpha * image
        norms.append(r.norm(2, -1))
        z = r * scale
        after = (r * z).sum(-1, keepdim=True)
        p = z + after / product * p
        product = after
    return x, torch.stack(norms)


def diffusion_tensor(tensors):
    xx, xy, xz, yy, yz, zz = tensors.unbind(1)
    mean = (xx + yy + zz) / 3
    a, b, c = xx - mean, yy - mean, zz - mean
    off = xy.square() + xz.square() + yz.square()
    p = ((a.square() + b.square() + c.square() + 2 * off) / 6).sqrt().clamp_min(1e-9)
    determinant = a * (b * c - yz * yz) - xy * (xy * c - yz * xz) + xz * (xy * yz - b * xz)
    angle = (determinant / (2 * p.pow(3))).clamp(-1, 1).acos() / 3
    first = mean + 2 * p * angle.cos()
    third = mean + 2 * p * (angle + 2 * math.pi / 3).cos()
    values = torch.stack([first, 3 * mean - first - third, third], 1)
    spread = (values - mean[:, None]).square().sum(1)
    return values, (1.5 * spread / values.square().sum(1).clamp_min(1e-12)).sqrt()


def power_spectrum(fields):
    batch, height, width = fields.shape
    rings = min(height, width) // 2 + 1
    centred = fields - fields.mean((1, 2), keepdim=True)
    power = torch.fft.rfft2(centred, norm="ortho").abs().square().flatten(1)
    ky = torch.fft.fftfreq(height, 1 / height, dtype=fields.dtype)
    kx = torch.fft.rfftfreq(width, 1 / width, dtype=fields.dtype)
    radius = (ky.square()[:, None] + kx.square()).sqrt()
    ring = radius.round().long().clamp_max(rings).flatten()
    count = torch.bincount(ring, minlength=rings + 1).clamp_min(1)
    total = torch.zeros(batch, rings + 1, dtype=fields.dtype).index_add_(1, ring, power)
    mean = (total / count)[:, :rings]
    k = torch.arange(rings, dtype=fields.dtype)
    return mean, (mean * k).sum(1) / mean.sum(1)


def drawdown(returns):
    days = returns.shape[0]
    wealth = returns.cumsum(0)
    equity = wealth.exp()
    peak, since = equity.cummax(0)
    deepest, day = (1 - equity / peak).max(0)
    under = torch.arange(days)[:, None] - since
    growth = (wealth[-1] * (252 / days)).exp() - 1
    return deepest, day, under.max(0).values, growth / deepest.clamp_min(1e-4)


def sinkhorn(x, y, rounds):
    blur, log_n, log_m = 0.5, math.log(x.shape[1]), math.log(y.shape[1])
    squares = x.square().sum(-1)[:, :, None] + y.square().sum(-1)[:, None]
    cost = (squares - 2 * torch.bmm(x, y.transpose(1, 2))).clamp_min(0)
    f, g = torch.zeros_like(cost[:, :, 0]), torch.zeros_like(cost[:, 0])
    for _ in range(rounds):
        f = -blur * torch.logsumexp((g[:, None] - cost) / blur - log_m, 2)
        g = -blur * torch.logsumexp((f[:, :, None] - cost) / blur - log_n, 1)
    plan = ((f[:, :, None] + g[:, None] - cost) / blur - (log_n + log_m)).exp()
    return plan, (plan * cost).sum((1, 2))


def particle_filter(start, observed, noise, uniforms):
    particles = start.shape[1]
    comb = torch.arange(particles, dtype=start.dtype) / particles
    x, likelihood = start, torch.zeros_like(start[:, 0])
    means = []
    for t in range(observed.shape[0]):
        x = 0.5 * x + 25 * x / (1 + x.square()) + 8 * math.cos(1.2 * t) + 3 * noise[t]
        error = observed[t][:, None] - x.square() / 20
        score = -0.5 * error.square()
        likelihood = likelihood + torch.logsumexp(score, 1) - math.log(particles)
        weight = torch.softmax(score, 1)
        means.append((weight * x).sum(1))
        places = comb + uniforms[t][:, None] / particles
        chosen = torch.searchsorted(weight.cumsum(1), places).clamp_max(particles - 1)
        x = x.gather(1, chosen)
    return torch.stack(means), likelihood


def molecule_layer(atoms, source, target, kinds, bonds, graph, w1, b1, w2, b2, graphs):
    messages = torch.relu(atoms.index_select(0, source) + F.embedding(kinds, bonds))
    around = torch.zeros_like(atoms).index_add_(0, target, messages)
    hidden = torch.relu(F.linear(1.1 * atoms + around, w1, b1))
    h = torch.relu(F.linear(hidden, w2, b2)) + atoms
    zero = torch.zeros(graphs, h.shape[1], dtype=h.dtype)
    count = torch.zeros(graphs, dtype=h.dtype).index_add_(0, graph, torch.ones_like(h[:, 0]))
    mean = zero.index_add(0, graph, h) / count.clamp_min(1)[:, None]
    most = torch.scatter_reduce(zero, 0, graph[:, None].expand_as(h), h, "amax", include_self=False)
    return h, torch.cat([mean, most], 1)


def translation_rank(entities, relations, head, relation, tail, known):
    query = entities.index_select(0, head) + relations.index_select(0, relation)
    distance = torch.cdist(query, entities, 1.0)
    own = distance.gather(1, tail[:, None])
    filtered = distance.scatter(1, known, math.inf)
    rank = (filtered < own).sum(1) + 1
    hits = (rank <= 10).to(distance.dtype)
    return rank, rank.to(distance.dtype).reciprocal().mean(), hits.mean()


def deep_interest(items, history, lengths, candidate, w1, b1, w2, b2):
    keys, wanted = F.embedding(history, items), F.embedding(candidate, items)
    query = wanted[:, None].expand_as(keys)
    features = torch.cat([query, keys, query - keys, query * keys], -1)
    hidden = torch.sigmoid(F.linear(features, w1, b1))
    score = F.linear(hidden, w2, b2).squeeze(-1) / math.sqrt(items.shape[1])
    there = torch.arange(history.shape[1]) < lengths[:, None]
    weight = torch.softmax(score.masked_fill(there.logical_not(), -1e9), -1)
    interest = torch.bmm(weight[:, None], keys).squeeze(1)
    return interest, torch.sigmoid((interest * wanted).sum(-1))


def nucleus_sample(logits, uniforms):
    p, order = torch.softmax(logits / 0.9, -1).sort(-1, descending=True)
    outside = p.cumsum(-1) - p > 0.9
    kept = p.masked_fill(outside, 0)
    share = kept / kept.sum(-1, keepdim=True)
    below = share.cumsum(-1) < uniforms[:, None]
    last = outside.logical_not().sum(-1, keepdim=True) - 1  # of those kept
    choice = torch.minimum(below.sum(-1, keepdim=True), last)
    distribution = torch.zeros_like(logits).scatter_(1, order, share)
    return order.gather(1, choice).squeeze(1), share.gather(1, choice).squeeze(1).log(), distribution


def beam_step(logits, scores, finished, tokens):
    (batch, beams, length), vocabulary = tokens.shape, logits.shape[1]
    end = torch.full((vocabulary,), -1e9, dtype=logits.dtype)
    end[END_OF_TEXT].fill_(0)
    log_p = torch.log_softmax(logits, -1).view(batch, beams, vocabulary)
    total = scores[..., None] + torch.where(finished[..., None], end, log_p)
    best, flat = total.view(batch, -1).topk(beams, -1)
    beam, token = torch.div(flat, vocabulary, rounding_mode="floor"), flat.remainder(vocabulary)
    before = tokens.gather(1, beam[..., None].expand(-1, -1, length))
    done = torch.logical_or(finished.gather(1, beam), token == END_OF_TEXT)
    penalty = ((5 + length + 1) / 6) ** 0.6
    return best, torch.cat([before, token[..., None]], -1), done, best / penalty


def dpm_solver(x, predicted, previous, alphas, step, stride):
    without, given = wide(predicted).chunk(2, 0)
    guided = without + 7.5 * (given - without)
    ratio = given.std((1, 2, 3), keepdim=True) / guided.std((1, 2, 3), keepdim=True)
    noise = 0.7 * (guided * ratio) + 0.3 * guided
    a, s = alphas.sqrt(), (1 - alphas).sqrt()
    level = (a / s).log()
    raw = (wide(x) - s[step] * noise) / a[step]
    limit = torch.quantile(raw.abs().flatten(1), 0.995, 1).clamp_min(1).view(-1, 1, 1, 1)
    image = torch.clamp(raw, -limit, limit) / limit
    after = step - stride
    h = level[after] - level[step]
    r = (level[step] - level[step + stride]) / h
    d = (1 + 0.5 / r) * image - 0.5 / r * wide(previous)
    out = s[after] / s[step] * wide(x) - a[after] * torch.expm1(-h) * d
    return out.to(x.dtype), image.to(x.dtype)


def lorenz_case(systems=32768, steps=8):
    return lorenz_paths, (torch.randn(systems, 3) * 5, uniform((systems,), 20, 35), steps)


def thomas_case(unknowns=48, systems=32768):
    lower, diagonal, upper = (uniform((unknowns, systems), *between) for between in ((-1, 1), (3, 5), (-1, 1)))
    return thomas, (lower, diagonal, upper, torch.randn(unknowns, systems))


def conjugate_gradient_case(systems=2048, unknowns=32, steps=6):
    root = torch.randn(systems, unknowns, unknowns) / math.sqrt(unknowns)
    matrices = torch.bmm(root, root.transpose(1, 2)) + torch.eye(unknowns)
    return conjugate_gradient, (matrices, torch.randn(systems, unknowns), steps)


def diffusion_tensor_case(voxels=262144):
    return diffusion_tensor, (torch.randn(voxels, 6),)


def power_spectrum_case(batch=24, height=256, width=256):
    return power_spectrum, (torch.randn(batch, height, width),)


def drawdown_case(days=512, assets=2048):
    return drawdown, (torch.randn(days, assets) * 0.01,)


def sinkhorn_case(batch=8, points=256, others=192, width=8, rounds=10):
    return sinkhorn, (uniform((batch, points, width)), uniform((batch, others, width)) + 0.25, rounds)


def particle_filter_case(filters=64, particles=512, steps=8):
    start, observed = torch.randn(filters, particles).double() * 2, uniform((steps, filters), 0, 15).double()
    noise, uniforms = torch.randn(steps, filters, particles).double(), uniform((steps, filters)).double()
    return particle_filter, (start, observed, noise, uniforms)


def molecule_layer_case(nodes=8192, edges=32768, width=64, graphs=256):
    kinds, scale = 5, 1 / math.sqrt(width)
    source, target, kind = integers((edges,), nodes), integers((edges,), nodes), integers((edges,), kinds)
    graph = torch.arange(nodes).mul(graphs).floor_divide(nodes)
    w1, w2 = torch.randn(2 * width, width) * scale, torch.randn(width, 2 * width) * scale
    weights = w1, torch.randn(2 * width), w2, torch.randn(width)
    bonds = torch.randn(kinds, width)
    return molecule_layer, (torch.randn(nodes, width), source, target, kind, bonds, graph, *weights, graphs)


def translation_rank_case(entities=8192, triples=64, known=32, width=64):
    # Heads in the first half; in the second the tails, about where the translations lead.
    table, relations = torch.randn(entities, width), torch.randn(11, width) * 0.5
    head, relation = integers((triples,), entities // 2), integers((triples,), 11)
    tail = torch.arange(triples) + entities // 2
    noise = torch.randn(triples, width) * uniform((triples, 1), 0.5, 2)
    table.index_copy_(0, tail, table.index_select(0, head) + relations.index_select(0, relation) + noise)
    return translation_rank, (table, relations, head, relation, tail, integers((triples, known), entities))


def deep_interest_case(batch=1024, length=50, width=16, hidden=36, values=65536):
    items, candidate = torch.randn(values, width), integers((batch,), values)
    history, lengths = integers((batch, length), values), integers((batch,), length) + 1
    weights = torch.randn(hidden, 4 * width) * 0.2, torch.randn(hidden), torch.randn(1, hidden), torch.randn(1)
    return deep_interest, (items, history, lengths, candidate, *weights)


def nucleus_sample_case(batch=8, vocabulary=32000):
    return nucleus_sample, (torch.randn(batch, vocabulary) * 3, uniform((batch,)))


def beam_step_case(batch=16, beams=5, vocabulary=32000, length=64):
    logits = torch.randn(batch * beams, vocabulary) * 3
    scores = uniform((batch, beams), -9, -5).sort(-1, descending=True).values
    finished, tokens = uniform((batch, beams)) < 0.2, integers((batch, beams, length), vocabulary)
    return beam_step, (logits, scores, finished, tokens)


def dpm_solver_case(batch=4, channels=3, side=128):
    x, without, given, previous = (torch.randn(batch, channels, side, side).bfloat16() for _ in range(4))
    alphas = (1 - torch.linspace(1e-4, 0.02, 1000)).cumprod(0)
    return dpm_solver, (x, torch.cat([without, given]), previous.clamp(-1, 1), alphas, 500, 50)


CASES = {
    "lorenz_paths_f32": (lorenz_case, {}),
    "thomas_f32": (thomas_case, {}),
    "conjugate_gradient_f32": (conjugate_gradient_case, {}),
    "diffusion_tensor_f32": (diffusion_tensor_case, {}),
    "power_spectrum_f32": (power_spectrum_case, {}),
    "drawdown_f32": (drawdown_case, {}),
    "sinkhorn_f32": (sinkhorn_case, {}),
    "particle_filter_f64": (particle_filter_case, {}),
    "molecule_layer_f32": (molecule_layer_case, {}),
    "translation_rank_f32": (translation_rank_case, {}),
    "deep_interest_f32": (deep_interest_case, {}),
    "nucleus_sample_f32": (nucleus_sample_case, {}),
    "beam_step_f32": (beam_step_case, {}),
    "dpm_solver_bf16": (dpm_solver_case, {}),
}
