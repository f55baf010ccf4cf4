"""Sojourners: layers, routers and codes of networks, a step and a gradient, one of each."""

import math

import torch
import torch.nn.functional as F

from .draw import integers, uniform, wide


def cross_network(fields, numbers, starts, table, w):
    rows = F.embedding(fields + starts, table).flatten(1)
    x0 = torch.cat([(numbers.abs() + 1).log() * numbers.sign(), rows], 1)
    x = x0
    for layer in range(3):
        down, up, bias = w[3 * layer : 3 * layer + 3]
        x = x0 * F.linear(F.linear(x, down), up, bias) + x
    deep = torch.relu(F.linear(x0, w[9], w[10]))
    deep = torch.relu(F.linear(deep, w[11], w[12]))
    return torch.sigmoid(F.linear(torch.cat([x, deep], 1), w[13], w[14])).squeeze(1)


def equivariant_layer(nodes, places, edges, w):
    count = nodes.shape[0]
    to, source = edges[0], edges[1]
    apart = places.index_select(0, to) - places.index_select(0, source)
    squared = apart.square().sum(1, keepdim=True)
    pair = torch.cat([nodes.index_select(0, to), nodes.index_select(0, source), squared], 1)
    carried = F.silu(F.linear(F.silu(F.linear(pair, w[0], w[1])), w[2], w[3]))
    gated = carried * torch.sigmoid(F.linear(carried, w[4], w[5]))
    pull = F.linear(F.silu(F.linear(gated, w[6], w[7])), w[8]).tanh()
    unit = apart / (squared.sqrt() + 1)
    degree = torch.zeros(count, 1).index_add_(0, to, torch.ones(edges.shape[1], 1))
    moved = torch.zeros_like(places).index_add_(0, to, unit * pull)
    gathered = torch.zeros(count, gated.shape[1])
    gathered.index_add_(0, to, gated)
    mixed = F.silu(F.linear(torch.cat([nodes, gathered], 1), w[9], w[10]))
    return nodes + F.linear(mixed, w[11], w[12]), places + moved / degree.clamp_min(1)


def unit_rows(x):
    return x * (x.square().sum(-1, keepdim=True) + 1e-6).rsqrt()


def gated_delta_chunks(queries, keys, values, decays, rates, length):
    b, h, tokens, d = keys.shape
    v, chunks = values.shape[3], tokens // length

    def chunked(x):
        return x.reshape(b, h, chunks, length, -1)

    q = chunked(unit_rows(queries) / math.sqrt(d))
    normal, rate = unit_rows(keys), rates[..., None]
    k, rated_k, rated_v = chunked(normal), chunked(normal * rate), chunked(values * rate)
    g = decays.reshape(b, h, chunks, length).cumsum(-1)
    decay = (g[..., None] - g[..., None, :]).tril().exp().tril()
    own = torch.ones(length, length, dtype=torch.bool).triu(0)
    attention = -((rated_k @ k.transpose(-1, -2)) * decay).masked_fill(own, 0)
    for i in range(1, length):
        row, before = attention[..., i, :i].clone(), attention[..., :i, :i].clone()
        attention[..., i, :i] = row + (row[..., None] * before).sum(-2)
    inverse = attention + torch.eye(length)
    value, decayed_k = inverse @ rated_v, inverse @ (rated_k * g.exp()[..., None])
    later = torch.ones(length, length, dtype=torch.bool).triu(1)
    out, state = torch.zeros_like(value), torch.zeros(b, h, d, v)
    for c in range(chunks):
        qc, kc, gc = q[:, :, c], k[:, :, c], g[:, :, c]
        scores = ((qc @ kc.transpose(-1, -2)) * decay[:, :, c]).masked_fill(later, 0)
        fresh = value[:, :, c] - decayed_k[:, :, c] @ state
        kept = (qc * gc[..., None].exp()) @ state
        out[:, :, c] = kept + scores @ fresh
        last = gc[..., -1:]
        state = state * last[..., None].exp() + (kc * (last - gc).exp()[..., None]).transpose(-1, -2) @ fresh
    return out.reshape(b, h, tokens, v), state


def differential_attention(query, key, value, lambdas, weight):
    start = 0.35550906759096927  # 0.8 - 0.6 exp(-0.3), of the second layer
    batch, pairs = value.shape[:2]
    tokens = query.shape[2]
    share = (lambdas[0] * lambdas[1]).sum().exp() - (lambdas[2] * lambdas[3]).sum().exp() + start
    later = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    scores = (query / math.sqrt(query.shape[3])) @ key.transpose(-1, -2)
    weights = torch.softmax(wide(scores).masked_fill(later, -math.inf), -1).view(batch, pairs, 2, tokens, tokens)
    difference = weights[:, :, 0] - share * weights[:, :, 1]
    mixed = wide(difference.to(value.dtype) @ value)
    scale = (mixed.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
    normal = mixed * scale * weight * (1 - start)
    return normal.to(query.dtype).transpose(1, 2).reshape(batch, tokens, -1)


def group_router(x, gate, bias):
    tokens, experts, groups, chosen = x.shape[0], gate.shape[0], 8, 8
    scores = torch.sigmoid(wide(x) @ wide(gate).t())
    wanted = scores + bias
    by_group = wanted.view(tokens, groups, experts // groups).topk(2, -1).values.sum(-1)
    best = by_group.topk(4, -1, sorted=False).indices
    opened = torch.zeros_like(by_group).scatter_(1, best, 1).bool()
    every = opened[..., None].expand(tokens, groups, experts // groups).reshape(tokens, experts)
    index = wanted.masked_fill(every.logical_not(), -math.inf).topk(chosen, -1).indices
    picked = scores.gather(1, index)
    weights = picked / (picked.sum(-1, keepdim=True) + 1e-20) * 2.5
    flat = index.view(-1)
    count = torch.zeros(experts, dtype=torch.int64).scatter_add_(0, flat, torch.ones_like(flat))
    order = torch.argsort(flat, stable=True)
    mean = torch.full((), flat.shape[0] / experts)
    bias.add_((mean - count).sign(), alpha=0.001)
    return weights, order // chosen, count.cumsum(0) - count


def half_quadratic(weights, steps):
    norm, beta = 0.7, 10
    low, high = weights.amin(1, keepdim=True), weights.amax(1, keepdim=True)
    scale = (15 / (high - low)).clamp_max(2e4)
    zero = (-low * scale).round()
    for _ in range(steps):
        codes = (weights * scale + zero).round().clamp(0, 15)
        error = weights - (codes - zero) / scale
        size = error.abs()
        sparse = error.sign() * torch.relu(size - (1 / beta) * (size + 1e-8).pow(norm - 1))
        zero = (codes - (weights - sparse) * scale).mean(1, keepdim=True)
        beta *= 1.01
    high_codes, low_codes = (weights * scale + zero).round().clamp(0, 15).to(torch.uint8).chunk(2, 0)
    return high_codes << 4 | low_codes, scale.reciprocal(), zero


def hadamard_quantise(x, signs):
    rows, width = x.shape
    y, half = wide(x) * signs, 1
    while half < width:
        a, b = y.view(rows, width // (2 * half), 2, half).unbind(2)
        y = torch.stack([a + b, a - b], 2).view(rows, width)
        half *= 2
    y = y * (1 / math.sqrt(width))
    scale = (0.9 * y.abs().amax(-1, keepdim=True) / 7).clamp_min(1e-8)
    return (y / scale).round().clamp(-8, 7).to(torch.int8), scale.to(x.dtype)


def sophia_step(p, gradients, sampled, momenta, curvatures):
    rate, batch, rho = 3e-4, 32, 0.04
    factor = (1 / (torch.stack([g.norm() for g in gradients]).norm() + 1e-6)).clamp_max(1)
    for w, g, s, m, h in zip(p, gradients, sampled, momenta, curvatures):
        m.mul_(0.965).add_(g * factor, alpha=0.035)
        h.mul_(0.99).addcmul_(s, s, value=0.01)
        ratio = (m.abs() / (rho * batch * h + 1e-15)).clamp_max(1)
        if w.dim() > 1:
            w.mul_(1 - rate * 0.1)
        w.addcmul_(m.sign(), ratio, value=-rate)


def lstm_backward(gradient, inputs, gates, cells, results, into, again):
    by_gates = torch.empty_like(gates)
    by_result = torch.zeros_like(gradient[0])
    by_cell = torch.zeros_like(by_result)
    for t in reversed(range(gradient.shape[0])):
        i, f, g, o = gates[t].chunk(4, -1)
        bent, everything = cells[t + 1].tanh(), gradient[t] + by_result
        by_cell = by_cell + everything * o * (1 - bent * bent)
        by_i, by_f = by_cell * g * i * (1 - i), by_cell * cells[t] * f * (1 - f)
        by_g, by_o = by_cell * i * (1 - g * g), everything * bent * o * (1 - o)
        now = torch.cat([by_i, by_f, by_g, by_o], -1)
        by_gates[t] = now
        by_result = now @ again
        by_cell = by_cell * f
    flat = by_gates.flatten(0, 1)
    by_into, by_again = flat.t() @ inputs.flatten(0, 1), flat.t() @ results[:-1].flatten(0, 1)
    return by_gates @ into, by_into, by_again, flat.sum(0), by_result, by_cell


def matrix(out, of):
    return torch.randn(out, of) / math.sqrt(of)


def vector(size):
    return 0.1 * torch.randn(size)


def cross_network_case(batch=512, fields=26, width=16, rank=64, values=16384):
    numbers, deep, w = 13, 4 * rank, []
    size = numbers + fields * width
    for _ in range(3):
        w += [matrix(rank, size), matrix(size, rank), vector(size)]
    for out, of in (deep, size), (deep // 2, deep), (1, size + deep // 2):
        w += [matrix(out, of), vector(out)]
    chosen, starts = integers((batch, fields), values), torch.arange(fields) * values
    return cross_network, (chosen, 3 * torch.randn(batch, numbers), starts, torch.randn(fields * values, width), w)


def equivariant_layer_case(nodes=512, edges=6144, width=64):
    c = width
    w = [matrix(c, 2 * c + 1), vector(c), matrix(c, c), vector(c), matrix(1, c), vector(1), matrix(c, c), vector(c)]
    w += [0.1 * matrix(1, c), matrix(c, 2 * c), vector(c), matrix(c, c), vector(c)]
    return equivariant_layer, (torch.randn(nodes, c), torch.randn(nodes, 3), integers((2, edges), nodes), w)


def gated_delta_chunks_case(batch=1, heads=8, chunks=4, length=64, width=64, value=64):
    tokens = chunks * length
    queries, keys, values = (torch.randn(batch, heads, tokens, size) for size in (width, width, value))
    rates = uniform((batch, heads, tokens), -0.2, 0), torch.rand(batch, heads, tokens)
    return gated_delta_chunks, (queries, keys, values, *rates, length)


def differential_attention_case(batch=1, pairs=4, tokens=256, width=64):
    query, key = (torch.randn(batch, 2 * pairs, tokens, width).bfloat16() for _ in range(2))
    value = torch.randn(batch, pairs, tokens, 2 * width).bfloat16()
    lambdas = [vector(width) for _ in range(4)]
    return differential_attention, (query, key, value, lambdas, uniform((2 * width,), 0.5, 1.5))


def group_router_case(tokens=64, width=256, of_group=8):
    experts = 8 * of_group
    gate = matrix(experts, width).bfloat16()
    return group_router, (torch.randn(tokens, width).bfloat16(), gate, 0.01 * torch.randn(experts))


def half_quadratic_case(pairs=4096, steps=10):
    return half_quadratic, (0.02 * torch.randn(2 * pairs, 64), steps)


def hadamard_quantise_case(tokens=256, log_width=12):
    width = 2**log_width
    return hadamard_quantise, (torch.randn(tokens, width).bfloat16(), integers((width,), 2).float() * 2 - 1)


def sophia_step_case(width=48):
    c = width
    shapes = [(c,), (c,), (3 * c, c), (3 * c,), (c, c), (c,), (c,), (c,), (4 * c, c), (4 * c,), (c, 4 * c), (c,)]
    p, gradients, sampled, momenta, curvatures = (
        [torch.randn(shape) * scale for shape in shapes] for scale in (0.1, 0.01, 0.01, 0.001, 0.01)
    )
    return sophia_step, (p, gradients, sampled, momenta, [h.square() for h in curvatures])


def lstm_backward_case(steps=24, batch=16, inputs=64, hidden=96):
    gates = torch.sigmoid(torch.randn(steps, batch, 4 * hidden))
    gates[..., 2 * hidden : 3 * hidden].mul_(2).sub_(1)
    cells, results = torch.randn(steps + 1, batch, hidden), torch.randn(steps + 1, batch, hidden).tanh()
    data = torch.randn(steps, batch, hidden), torch.randn(steps, batch, inputs), gates, cells, results
    return lstm_backward, (*data, matrix(4 * hidden, inputs), matrix(4 * hidden, hidden))


CASES = {
    "cross_network_f32": (cross_network_case, {}),
    "equivariant_layer_f32": (equivariant_layer_case, {}),
    "gated_delta_chunks_f32": (gated_delta_chunks_case, {}),
    "differential_attention_bf16": (differential_attention_case, {}),
    "group_router_bf16": (group_router_case, {}),
    "half_quadratic_f32": (half_quadratic_case, {}),
    "hadamard_quantise_bf16": (hadamard_quantise_case, {}),
    "sophia_step_f32": (sophia_step_case, {}),
    "lstm_backward_f32": (lstm_backward_case, {}),
}
