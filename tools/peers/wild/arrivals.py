"""Arrivals: caches, adapters and experts of language models, and steps that learn, many by hand."""

import math

import torch
import torch.nn.functional as F

from .draw import integers, uniform, wide


def paged_attention(query, keys, values, tables, lengths):
    batch, heads, width = query.shape
    groups = keys.shape[2]
    k, v = wide(keys[tables]).flatten(1, 2), wide(values[tables]).flatten(1, 2)
    q = wide(query).view(batch, groups, heads // groups, width)
    scores = torch.einsum("bghd,btgd->bght", q, k) / math.sqrt(width)
    absent = torch.arange(k.shape[1]) >= lengths[:, None]
    weights = scores.masked_fill(absent[:, None, None], -math.inf).softmax(-1)
    return torch.einsum("bght,btgd->bghd", weights, v).reshape(batch, heads, width).to(query.dtype)


def adapter_rows(x, weight, down, up, scales, which):
    mine = which.clamp_min(0)
    low = torch.bmm(down[mine], x[..., None])
    added = torch.bmm(up[mine], low).squeeze(-1) * scales[mine][:, None]
    return F.linear(x, weight) + torch.where((which >= 0)[:, None], added, 0)


def float8_linear(x, weight, scales):
    rows, outs, blocks = x.shape[0], weight.shape[0], scales.shape[1]
    block = x.shape[1] // blocks
    parts = wide(x).view(rows, blocks, block)
    steps = (parts.abs().amax(-1, keepdim=True) / 448).clamp_min(1e-12)
    codes = (parts / steps).to(torch.float8_e4m3fn)
    out = torch.zeros(rows, outs, dtype=scales.dtype)
    for k in range(blocks):
        w = weight[:, k * block : (k + 1) * block].to(scales.dtype)
        out += codes[:, k].to(scales.dtype) @ w.t() * steps[:, k] * scales[:, k].repeat_interleave(block)
    return out.to(x.dtype)


def loop_experts(x, router, gates, ups, downs):
    experts = router.shape[0]
    weights, chosen = F.linear(wide(x), router).softmax(-1).topk(2, -1)
    weights = (weights / weights.sum(-1, keepdim=True)).to(x.dtype)
    mask = F.one_hot(chosen, experts).permute(2, 1, 0)
    out = torch.zeros_like(x)
    for e in range(experts):
        rank, rows = mask[e].nonzero().unbind(1)
        if rows.numel() == 0:
            continue
        mine = x[rows]
        made = F.linear(F.silu(F.linear(mine, gates[e])) * F.linear(mine, ups[e]), downs[e])
        out.index_add_(0, rows, made * weights[rows, rank][:, None])
    return out


def evict_cache(keys, values, heat, query, key, value, recent):
    batch, heads, length, width = keys.shape
    k, v = torch.cat([keys, key], 2), torch.cat([values, value], 2)
    weights = torch.softmax(wide(query @ k.transpose(-1, -2)) / math.sqrt(width), -1)
    out = weights.to(v.dtype) @ v
    warm = F.pad(heat, (0, 1)) + weights.squeeze(2)
    old = length + 1 - recent
    hottest = warm[..., :old].topk(old - 1, -1, sorted=False).indices.sort(-1).values
    kept = torch.cat([hottest, torch.arange(old, length + 1).expand(batch, heads, recent)], -1)
    rows = kept[..., None].expand(-1, -1, -1, width)
    keys.copy_(k.gather(2, rows))
    values.copy_(v.gather(2, rows))
    heat.copy_(warm.gather(2, kept))
    return out


def even_codes(scores):
    q = (scores / 0.05).exp().t()
    q = q / q.sum()
    for _ in range(3):
        q = q / q.sum(1, keepdim=True) / q.shape[0]
        q = q / q.sum(0, keepdim=True) / q.shape[1]
    return (q * q.shape[1]).t()


def swapped_codes_step(prototypes, momenta, queues, one, other):
    batch = one.shape[0]
    gradient, losses = torch.zeros_like(prototypes), []
    for queue, mine, its in (queues[0], one, other), (queues[1], other, one):
        codes = even_codes(torch.cat([mine, queue]) @ prototypes.t())[:batch]
        logs = torch.log_softmax(its @ prototypes.t() / 0.1, 1)
        losses.append(-(codes * logs).sum(1).mean())
        gradient += (logs.exp() - codes).t() @ its / (0.1 * batch)
        queue.copy_(torch.cat([mine, queue[:-batch]]))
    momenta.mul_(0.9).add_(gradient)
    prototypes.sub_(momenta, alpha=0.05)
    prototypes.div_(prototypes.norm(dim=1, keepdim=True))
    return 0.5 * (losses[0] + losses[1])


def along_sphere(gradient, unit, size):
    return (gradient - unit * (gradient * unit).sum(1, keepdim=True)) / size


def angular_margin(features, weights, labels):
    scale, margin = 64, 0.5
    x_size, w_size = features.norm(dim=1, keepdim=True), weights.norm(dim=1, keepdim=True)
    x, w, rows = features / x_size, weights / w_size, labels[:, None]
    cosine = (x @ w.t()).clamp(-1 + 1e-6, 1 - 1e-6)
    mine = cosine.gather(1, rows)
    sine, within = (1 - mine.square()).sqrt(), mine > -math.cos(margin)
    turned = mine * math.cos(margin) - sine * math.sin(margin)
    turned = torch.where(within, turned, mine - math.sin(margin) * margin)
    logs = torch.log_softmax(scale * cosine.scatter(1, rows, turned), 1)
    slope = logs.exp()
    bend = torch.where(within, math.cos(margin) + math.sin(margin) * mine / sine, 1)
    slope.scatter_(1, rows, (slope.gather(1, rows) - 1) * bend)
    slope.mul_(scale / features.shape[0])
    by_both = along_sphere(slope @ w, x, x_size), along_sphere(slope.t() @ x, w, w_size)
    return -logs.gather(1, rows).mean(), *by_both


def lambda_rank(scores, grades, lengths):
    count = scores.shape[1]
    there = torch.arange(count) < lengths[:, None]
    ranks = scores.masked_fill(~there, -math.inf).argsort(1, descending=True).argsort(1)
    gains = (torch.exp2(grades.to(scores.dtype)) - 1) * there
    discounts = 1 / torch.log2(ranks + 2.0)
    best = gains.sort(1, descending=True).values
    ideal = (best / torch.log2(torch.arange(count) + 2.0)).sum(1, keepdim=True).clamp_min(1e-6)
    swap = (gains[:, :, None] - gains[:, None]).abs() * (discounts[:, :, None] - discounts[:, None]).abs()
    above = (grades[:, :, None] > grades[:, None]) & there[:, :, None] & there[:, None]
    weight = torch.where(above, swap / ideal[..., None], 0)
    apart = scores[:, :, None] - scores[:, None]
    loss = (F.softplus(-apart) * weight).sum((1, 2)).mean()
    pull = torch.sigmoid(-apart) * weight
    return loss, pull.sum(1) - pull.sum(2)


def alternating_squares(users, items, lists, counts):
    gram = items.t() @ items + 0.1 * torch.eye(items.shape[1], dtype=items.dtype)
    chosen = items[lists]
    trust = torch.where(counts > 0, 1 + counts, 0)
    matrices = gram + torch.bmm((chosen * counts[..., None]).transpose(1, 2), chosen)
    sides = (chosen * trust[..., None]).sum(1)
    factors = torch.linalg.cholesky(matrices)
    users.copy_(torch.cholesky_solve(sides[..., None], factors).squeeze(-1))
    seen = torch.bmm(chosen, users[..., None]).squeeze(-1)
    return (trust * (1 - seen).square()).sum()


def word_vectors_step(inputs, outputs, words, contexts, others):
    w, c, n = inputs[words], outputs[contexts], outputs[others]
    near, far = (w * c).sum(1, keepdim=True), torch.bmm(n, w[..., None])
    loss = -(F.logsigmoid(near).sum() + F.logsigmoid(-far).sum()) / words.shape[0]
    pull, push = 0.025 * torch.sigmoid(-near), -0.025 * torch.sigmoid(far)
    inputs.index_add_(0, words, pull * c + (push * n).sum(1))
    outputs.index_add_(0, contexts, pull * w)
    outputs.index_add_(0, others.flatten(), (push * w[:, None]).flatten(0, 1))
    return loss


def prodigy_step(p, gradients, first, second, sums, starts, state):
    d, numerator = state[0].item(), state[1].item()
    least, beta = 1e-6, math.sqrt(0.999)
    step, gained, total = 0.1 * d, 0.0, 0.0
    for w, g, m, v, s, start in zip(p, gradients, first, second, sums, starts):
        gained += d / least * step * g.flatten().dot((start - w).flatten()).item()
        m.mul_(0.9).add_(g, alpha=0.1 * d)
        v.mul_(0.999).addcmul_(g, g, value=0.001 * d * d)
        s.mul_(beta).add_(g, alpha=d / least * step)
        total += s.abs().sum().item()
    if total == 0:
        return
    numerator = beta * numerator + gained
    d = max(d, min(numerator / total, 1.02 * d))
    for w, m, v in zip(p, first, second):
        w.mul_(1 - 0.1 * step)
        w.addcdiv_(m, v.sqrt().add_(1e-8 * d), value=-step)
    state[0].fill_(d)
    state[1].fill_(numerator)


def scaled_step(masters, halves, momenta, gradients, scale, good):
    plain = [wide(g) / scale for g in gradients]
    if not torch.stack([g.isfinite().all() for g in plain]).all().item():
        scale.mul_(0.5)
        good.zero_()
        return
    factor = (1 / (torch.stack([g.norm() for g in plain]).norm() + 1e-6)).clamp_max(1)
    for p, half, m, g in zip(masters, halves, momenta, plain):
        m.mul_(0.9).add_(g * factor)
        p.mul_(1 - 1e-4).sub_(m, alpha=0.01)
        half.copy_(p)
    good.add_(1)
    if good.item() % 2000 == 0:
        scale.mul_(2)


def boltzmann_step(weights, visible, hidden, data, noise):
    likely = torch.sigmoid(F.linear(data, weights, hidden))
    fired = (noise < likely).to(data.dtype)
    dreamt = torch.sigmoid(fired @ weights + visible)
    again = torch.sigmoid(F.linear(dreamt, weights, hidden))
    rate = 0.1 / data.shape[0]
    weights.mul_(1 - 1e-4).add_(likely.t() @ data - again.t() @ dreamt, alpha=rate)
    visible.add_((data - dreamt).sum(0), alpha=rate)
    hidden.add_((likely - again).sum(0), alpha=rate)
    return (data - dreamt).square().mean()


def corner_keys(cells, size):
    (x, y, z), keys = cells.unbind(1), []
    for corner in range(8):
        i, j, k = corner & 1, corner >> 1 & 1, corner >> 2
        keys.append(((x + i) ^ (y + j) * 2654435761 ^ (z + k) * 805459861) & (size - 1))
    return torch.stack(keys, 1)


def hash_grid_step(tables, head, points, targets):
    levels, size, width = tables.shape
    places, shares, features = [], [], []
    for level in range(levels):
        scaled = points * (16 * 1.5**level)
        low = scaled.floor()
        above, parts = scaled - low, []
        for corner in range(8):
            bits = torch.tensor([corner & 1, corner >> 1 & 1, corner >> 2])
            parts.append(torch.where(bits == 1, above, 1 - above).prod(1))
        places.append(corner_keys(low.long(), size))
        shares.append(torch.stack(parts, 1))
        features.append((tables[level][places[-1]] * shares[-1][..., None]).sum(1))
    x = torch.cat(features, 1)
    off = x @ head - targets
    by_out = 2 * off / points.shape[0]
    by_levels = (by_out[:, None] * head).view(-1, levels, width)
    head.sub_(x.t() @ by_out, alpha=0.01)
    for level in range(levels):
        added = shares[level][..., None] * by_levels[:, level, None]
        gradient = torch.zeros_like(tables[level]).index_add_(0, places[level].flatten(), added.flatten(0, 1))
        tables[level].sub_(gradient)
    return off.square().mean()


def matrix(out, of):
    return torch.randn(out, of) / math.sqrt(of)


def unit(*sizes):
    x = torch.randn(*sizes)
    return x / x.norm(dim=-1, keepdim=True)


def paged_attention_case(batch=8, pages=32):
    page, groups, heads, width = 16, 4, 16, 64
    blocks = batch * pages
    keys, values = (torch.randn(blocks, page, groups, width).half() for _ in range(2))
    tables = torch.rand(blocks).argsort().view(batch, pages)
    query = torch.randn(batch, heads, width).half()
    return paged_attention, (query, keys, values, tables, 1 + integers((batch,), pages * page))


def adapter_rows_case(tokens=128, width=512):
    adapters, rank = 12, 16
    x, weight = torch.randn(tokens, width).bfloat16(), matrix(width, width).bfloat16()
    down, up = torch.randn(adapters, rank, width) / math.sqrt(width), torch.randn(adapters, width, rank)
    scales, which = uniform((adapters,), 0.1, 0.5).bfloat16(), integers((tokens,), adapters + 1) - 1
    return adapter_rows, (x, weight, down.bfloat16(), up.bfloat16(), scales, which)


def float8_linear_case(tokens=48, blocks=6):
    outs, block = 4, 128
    x, weight = torch.randn(tokens, blocks * block).bfloat16(), 100 * torch.randn(outs * block, blocks * block)
    codes = weight.clamp(-448, 448).to(torch.float8_e4m3fn)
    return float8_linear, (x, codes, uniform((outs, blocks), 1e-4, 4e-4))


def loop_experts_case(tokens=48, width=256):
    hidden, experts = 2 * width, 8
    x, router = torch.randn(tokens, width).bfloat16(), matrix(experts, width)
    gates, ups = ((torch.randn(experts, hidden, width) / math.sqrt(width)).bfloat16() for _ in range(2))
    downs = (torch.randn(experts, width, hidden) / math.sqrt(hidden)).bfloat16()
    return loop_experts, (x, router, gates, ups, downs)


def evict_cache_case(batch=4, recent=64):
    length, heads, width = 4 * recent, 8, 64
    keys, values = (torch.randn(batch, heads, length, width).bfloat16() for _ in range(2))
    query, key, value = (torch.randn(batch, heads, 1, width).bfloat16() for _ in range(3))
    return evict_cache, (keys, values, 2 * torch.rand(batch, heads, length), query, key, value, recent)


def swapped_codes_step_case(batch=64, width=64):
    prototypes = 6 * width
    p, queues = unit(prototypes, width), unit(2, 6 * batch, width)
    momenta, one, other = 0.01 * torch.randn(prototypes, width), unit(batch, width), unit(batch, width)
    return swapped_codes_step, (p, momenta, queues, one, other)


def angular_margin_case(batch=96, classes=2048):
    width = 128
    return angular_margin, (torch.randn(batch, width), torch.randn(classes, width), integers((batch,), classes))


def lambda_rank_case(queries=48, documents=64):
    sizes = queries, documents
    return lambda_rank, (torch.randn(sizes), integers(sizes, 5), 1 + integers((queries,), documents))


def alternating_squares_case(users=384, items=4096):
    listed, width = 40, 32
    start, factors = torch.randn(users, width), 0.3 * torch.randn(items, width)
    lists, counts = integers((users, listed), items), (10 * torch.rand(users, listed) - 3).clamp_min(0)
    return alternating_squares, (start, factors, lists, counts)


def word_vectors_step_case(pairs=1024, words=20000):
    width, others = 100, 6
    inputs, outputs = 0.1 * torch.randn(words, width), 0.1 * torch.randn(words, width)
    # Few words are many.
    chosen = (torch.rand(2, pairs).pow(3) * words).long()
    return word_vectors_step, (inputs, outputs, *chosen.unbind(0), integers((pairs, others), words))


def prodigy_step_case(count=8, side=256):
    def made(scale):
        return [scale * torch.randn(side, side) for _ in range(count)]

    starts, gradients, first = made(0.1), made(0.01), made(1e-5)
    second, sums = [m.square() for m in made(1e-5)], made(1e-3)
    p = [start + off for start, off in zip(starts, made(1e-3))]
    state = [torch.tensor(1e-3), torch.tensor(0.0)]
    return prodigy_step, (p, gradients, first, second, sums, starts, state)


def scaled_step_case(count=8, side=256):
    masters = [0.1 * torch.randn(side, side) for _ in range(count)]
    momenta = [0.001 * torch.randn(side, side) for _ in range(count)]
    gradients = [10 * torch.randn(side, side).half() for _ in range(count)]
    state = torch.tensor(1024.0), torch.tensor(7)
    return scaled_step, (masters, [p.half() for p in masters], momenta, gradients, *state)


def boltzmann_step_case(batch=128, visible=784):
    hidden = visible // 3
    data = (torch.rand(batch, visible) < 0.3).float()
    weights, biases = 0.01 * torch.randn(hidden, visible), (torch.randn(visible), torch.randn(hidden))
    return boltzmann_step, (weights, *biases, data, torch.rand(batch, hidden))


def hash_grid_step_case(points=2048, log_size=14):
    levels = 6
    tables, head = 0.1 * torch.randn(levels, 2**log_size, 2), torch.randn(2 * levels)
    return hash_grid_step, (tables, head, torch.rand(points, 3), torch.randn(points))


CASES = {
    "paged_attention_f16": (paged_attention_case, {}),
    "adapter_rows_bf16": (adapter_rows_case, {}),
    "float8_linear_bf16": (float8_linear_case, {}),
    "loop_experts_bf16": (loop_experts_case, {}),
    "evict_cache_bf16": (evict_cache_case, {}),
    "swapped_codes_step_f32": (swapped_codes_step_case, {}),
    "angular_margin_f32": (angular_margin_case, {}),
    "lambda_rank_f32": (lambda_rank_case, {}),
    "alternating_squares_f32": (alternating_squares_case, {}),
    "word_vectors_step_f32": (word_vectors_step_case, {}),
    "prodigy_step_f32": (prodigy_step_case, {}),
    "scaled_step_f16": (scaled_step_case, {}),
    "boltzmann_step_f32": (boltzmann_step_case, {}),
    "hash_grid_step_f32": (hash_grid_step_case, {}),
}
