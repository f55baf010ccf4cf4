"""Learners: whole steps of training, each its forward, its backward and the update of what learns."""

import math

import torch
import torch.nn.functional as F

from .draw import integers, uniform


class Step:
    """Forward, backward and update. `loss` takes the leaves and the data, `update` the leaves, their gradients and the state.
    Arguments: the leaves, as many as `state` has, the data. `plain`: leaves come as tensors without gradients."""

    def __init__(self, loss, update, state=0, plain=False):
        self.loss, self.update, self.state, self.plain = loss, update, state, plain

    def compiled(self):
        return Step(torch.compile(self.loss), torch.compile(self.update), self.state, self.plain)

    def __call__(self, parameters, *others):
        state, data = others[: self.state], others[self.state :]
        own = parameters if isinstance(parameters, list) else [parameters]
        with torch.enable_grad():
            leaves = [p.detach().requires_grad_() for p in own] if self.plain else own
            loss = self.loss(leaves, *data)
            gradients = torch.autograd.grad(loss, leaves)
        self.update(own, gradients, *state)
        return loss.detach()


class EagerLossStep(Step):
    """A loss that differentiates twice: torch.compile (2.11) has no double backward, so that only the update is compiled."""

    def compiled(self):
        return EagerLossStep(self.loss, torch.compile(self.update), self.state, self.plain)


def momentum(p, gradients, velocities):
    for w, g, v in zip(p, gradients, velocities):
        w.sub_(v.mul_(0.9).add_(g), alpha=1e-3)


def nesterov(p, gradients, velocities):
    for w, g, v in zip(p, gradients, velocities):
        w.sub_(g + 0.9 * v.mul_(0.9).add_(g), alpha=0.01)


def lars(p, gradients, velocities):
    for w, g, v in zip(p, gradients, velocities):
        g = g + 1e-6 * w
        w.sub_(v.mul_(0.9).add_(g * (0.001 * w.norm() / (g.norm() + 1e-9))), alpha=0.3)


def adam(p, gradients, first, second, steps, rate=1e-3, decay=0.0):
    steps.add_(1)
    by_first, by_second = 1 - 0.9**steps, 1 - 0.999**steps
    for w, g, m, v in zip(p, gradients, first, second):
        m.mul_(0.9).add_(g, alpha=0.1)
        v.mul_(0.999).addcmul_(g, g, value=0.001)
        if decay > 0:
            w.mul_(1 - rate * decay)
        w.addcdiv_(m / by_first, (v / by_second).sqrt() + 1e-8, value=-rate)


def adapters_adam(*args):
    adam(*args, rate=2e-4, decay=0.01)


def clipped_rmsprop(p, gradients, squares):
    scale = (1 / (torch.stack([g.norm() for g in gradients]).norm() + 1e-6)).clamp_max(1)
    for w, g, s in zip(p, gradients, squares):
        g = g * scale
        s.mul_(0.99).addcmul_(g, g, value=0.01)
        w.addcdiv_(g, s.sqrt().add_(1e-8), value=-1e-3)


def adagrad(p, gradients, sums):
    for w, g, s in zip(p, gradients, sums):
        s.addcmul_(g, g)
        w.addcdiv_(g, s.sqrt() + 1e-10, value=-0.05)


def descent(rate, decay=0.0):
    def update(p, gradients):
        for w, g in zip(p, gradients):
            w.sub_(g + decay * w if decay else g, alpha=rate)

    return update


def paint(p, gradients):
    p[0].sub_(gradients[0] / gradients[0].abs().mean(), alpha=0.01).clamp_(0, 1)


def layered(p, x, activation):
    for i in range(0, len(p), 2):
        x = F.linear(x, p[i], p[i + 1])
        if i + 2 < len(p):
            x = activation(x)
    return x


def variational(p, images, noise):
    hidden = torch.relu(F.linear(images, p[0], p[1]))
    mean, log_variance = F.linear(hidden, p[2], p[3]), F.linear(hidden, p[4], p[5])
    code = mean + noise * (0.5 * log_variance).exp()
    logits = F.linear(torch.relu(F.linear(code, p[6], p[7])), p[8], p[9])
    error = F.binary_cross_entropy_with_logits(logits, images, reduction="sum")
    divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum()
    return (error + divergence) / images.shape[0]


def gaussian_process(p, points, values):
    lengths, scale, noise = p
    x, n = points / lengths.exp(), points.shape[0]
    squares = x.square().sum(1)
    distance = (squares[:, None] + squares - 2 * (x @ x.t())).clamp_min(0)
    kernel = scale.exp() * (-0.5 * distance).exp() + noise.exp() * torch.eye(n, dtype=x.dtype)
    factor = torch.linalg.cholesky(kernel)
    weights = torch.cholesky_solve(values[:, None], factor).squeeze(1)
    return 0.5 * values.dot(weights) + factor.diagonal().log().sum() + 0.5 * n * math.log(2 * math.pi)


def burgers(p, points, known, values):
    x, t = (points[:, i : i + 1].detach().requires_grad_() for i in range(2))
    u = layered(p, torch.cat([x, t], 1), torch.tanh)
    ones = torch.ones_like(u)
    by_x, by_t = torch.autograd.grad(u, (x, t), ones, create_graph=True)
    (by_xx,) = torch.autograd.grad(by_x, x, ones, create_graph=True)
    residual = by_t + u * by_x - 0.01 / math.pi * by_xx
    return residual.square().mean() + F.mse_loss(layered(p, known, torch.tanh), values)


def two_view(p, one, other):
    n = one.shape[0]
    z = layered(p, torch.cat([one, other]), torch.relu)
    unit = z / z.norm(2, 1, keepdim=True).clamp_min(1e-12)
    scores = (unit @ unit.t() / 0.1).masked_fill(torch.eye(2 * n, dtype=torch.bool), -1e9)
    return F.cross_entropy(scores, torch.cat([torch.arange(n, 2 * n), torch.arange(n)]))


def coupling_flow(p, x):
    kept, moved = x.chunk(2, 1)
    log_det = torch.zeros(x.shape[0])
    for i in range(0, len(p), 4):
        hidden = F.leaky_relu(F.linear(kept, p[i], p[i + 1]))
        scale, shift = F.linear(hidden, p[i + 2], p[i + 3]).chunk(2, 1)
        scale = torch.tanh(scale)
        moved = moved * scale.exp() + shift
        log_det = log_det + scale.sum(1)
        kept, moved = moved, kept
    z = torch.cat([kept, moved], 1)
    return -(-0.5 * (z.square() + math.log(2 * math.pi)).sum(1) + log_det).mean()


def citation(p, x, source, target, chosen, labels):
    n, heads = x.shape[0], p[1].shape[0]
    h = F.linear(x, p[0]).view(n, heads, -1)
    score = (h * p[1]).sum(-1).index_select(0, source) + (h * p[2]).sum(-1).index_select(0, target)
    score = F.leaky_relu(score, 0.2)
    highest = torch.full((n, heads), -1e9)
    highest = highest.scatter_reduce(0, target[:, None].expand_as(score), score.detach(), "amax")
    weight = (score - highest.index_select(0, target)).exp()
    total = torch.zeros(n, heads).index_add(0, target, weight)
    alpha = weight / (total.index_select(0, target) + 1e-16)
    mixed = torch.zeros_like(h).index_add(0, target, h.index_select(0, source) * alpha[..., None])
    logits = F.linear(F.elu(mixed.flatten(1)), p[3], p[4])
    return F.cross_entropy(logits.index_select(0, chosen), labels)


def gram(features):
    rows = features.flatten(2).squeeze(0)
    return rows @ rows.t() / rows.numel()


def style(p, filters, styles, content):
    x, distance = p[0], 0
    for i, wanted in enumerate(styles):
        if i == 2:
            x = F.avg_pool2d(x, 2)
        x = torch.relu(F.conv2d(x, filters[2 * i], filters[2 * i + 1], padding=1))
        distance = distance + F.mse_loss(gram(x), wanted)
    rough = (p[0][:, :, 1:] - p[0][:, :, :-1]).abs().mean() + (p[0][..., 1:] - p[0][..., :-1]).abs().mean()
    return 100 * distance + F.mse_loss(x, content) + 0.1 * rough


def tabular(p, running, categories, numbers, kept, labels):
    x = torch.cat([numbers, *(F.embedding(c, table) for c, table in zip(categories.unbind(1), p[10:]))], 1)
    for i in range(2):
        w = p[4 * i : 4 * i + 4]
        x = F.batch_norm(F.linear(x, w[0], w[1]), *running[2 * i : 2 * i + 2], w[2], w[3], training=True)
        x = torch.relu(x) * kept[i] / 0.8
    return F.binary_cross_entropy_with_logits(F.linear(x, p[8], p[9]).squeeze(1), labels * 0.9 + 0.05)


def gated_recurrent(p, x, wanted):
    h = torch.zeros(x.shape[0], p[1].shape[1])
    for t in range(x.shape[1]):
        into, own = F.linear(x[:, t], p[0], p[2]).chunk(3, 1), F.linear(h, p[1], p[3]).chunk(3, 1)
        reset, keep = torch.sigmoid(into[0] + own[0]), torch.sigmoid(into[1] + own[1])
        h = (1 - keep) * torch.tanh(into[2] + reset * own[2]) + keep * h
    return F.mse_loss(F.linear(h, p[4], p[5]).squeeze(1), wanted)


def low_rank(p, frozen, x, tokens):
    def adapted(y, w, i):
        return F.linear(y, w) + F.linear(F.linear(y, p[i]), p[i + 1]) * 2

    h = x + adapted(F.gelu(adapted(x, frozen[0], 0)), frozen[1], 2)
    normal = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-6)
    return F.cross_entropy(F.linear(normal, frozen[2]), tokens)


def rotation(p, triples, others):
    first, relation, last = triples.unbind(1)
    head, phase = p[0].index_select(0, first).chunk(2, -1), p[1].index_select(0, relation) * math.pi
    cos, sin = phase.cos(), phase.sin()
    real, imaginary = head[0] * cos - head[1] * sin, head[0] * sin + head[1] * cos
    tail = F.embedding(torch.cat([last[:, None], others], 1), p[0]).chunk(2, -1)
    apart = torch.stack([real[:, None] - tail[0], imaginary[:, None] - tail[1]], 0)
    score = 12 - apart.norm(2, 0).sum(-1)
    wrong = score[:, 1:]
    by_wrong = (torch.softmax(wrong, 1).detach() * F.logsigmoid(-wrong)).sum(1).mean()
    return -(F.logsigmoid(score[:, 0]).mean() + by_wrong) / 2


def q_wanted(p, slow, reward, following, done):
    best = layered(p, following, torch.relu).argmax(1, keepdim=True)
    return reward + 0.99 * (1 - done) * layered(slow, following, torch.relu).gather(1, best).squeeze(1)


def q_loss(p, wanted, seen, action, weight):
    taken = layered(p, seen, torch.relu).gather(1, action[:, None]).squeeze(1)
    loss = (weight * F.smooth_l1_loss(taken, wanted, reduction="none")).mean()
    return loss, ((taken - wanted).abs().detach() + 1e-6).pow(0.6)


def q_update(p, gradients, first, second, steps, slow):
    adam(p, gradients, first, second, steps, rate=3e-4)
    for s, w in zip(slow, p):
        s.lerp_(w, 0.005)


class DoubleQ:
    def __init__(self, wanted=q_wanted, loss=q_loss, update=q_update):
        self.wanted, self.loss, self.update = wanted, loss, update

    def compiled(self):
        return DoubleQ(torch.compile(self.wanted), torch.compile(self.loss), torch.compile(self.update))

    def __call__(self, p, first, second, steps, slow, seen, action, reward, following, done, weight):
        with torch.no_grad():
            wanted = self.wanted(p, slow, reward, following, done)
        with torch.enable_grad():
            loss, priorities = self.loss(p, wanted, seen, action, weight)
            gradients = torch.autograd.grad(loss, p)
        self.update(p, gradients, first, second, steps, slow)
        return loss.detach(), priorities


def leaf(tensor):
    return tensor.requires_grad_()


def layers(*sizes):
    pairs = [(torch.randn(out, of) / math.sqrt(of), torch.randn(out) * 0.1) for of, out in zip(sizes, sizes[1:])]
    return [leaf(t) for pair in pairs for t in pair]


def normals(p, size):
    return [torch.randn(w.shape) * size for w in p]


def squares(p, size):
    return [uniform(w.shape, 0.1 * size * size, size * size) for w in p]


def variational_case(batch=128, pixels=784, width=400):
    code = 20
    p = layers(pixels, width, code) + layers(width, code) + layers(code, width, pixels)
    data = torch.rand(batch, pixels), torch.randn(batch, code)
    return Step(variational, momentum, 1), (p, normals(p, 0.01), *data)


def gaussian_process_case(points=256, width=4):
    x = uniform((points, width), -2, 2).double()
    values = x.sin().sum(1) + 0.1 * torch.randn(points).double()
    p = [torch.zeros(width).double(), torch.tensor(0.5).double(), torch.tensor(-3.0).double()]
    return Step(gaussian_process, descent(1e-3), plain=True), (p, x, values)


def burgers_case(points=1024, width=20):
    known = points // 8
    data = torch.rand(points, 2), torch.rand(known, 2), uniform((known, 1), -1, 1)
    return EagerLossStep(burgers, descent(1e-3)), (layers(2, width, width, width, width, 1), *data)


def two_view_case(batch=192, features=512):
    p, one = layers(features, features, 128), torch.randn(batch, features)
    return Step(two_view, lars, 1), (p, normals(p, 1e-4), one, one + 0.5 * torch.randn_like(one))


def coupling_flow_case(batch=512, width=64):
    p = [w for _ in range(6) for w in layers(4, width, 8)]
    state = normals(p, 0.01), squares(p, 0.1), torch.tensor(100.0)
    return Step(coupling_flow, adam, 3), (p, *state, torch.randn(batch, 8))


def citation_case(nodes=2708, edges=10556):
    features, heads, width, classes = 128, 4, 16, 7
    attention = [leaf(torch.randn(heads, width)) for _ in range(2)]
    p = [leaf(torch.randn(heads * width, features) * 0.1), *attention, *layers(heads * width, classes)]
    chosen = torch.arange(0, nodes, 10)
    data = torch.randn(nodes, features), integers((edges,), nodes), integers((edges,), nodes)
    return Step(citation, descent(0.05, 5e-4)), (p, *data, chosen, integers((len(chosen),), classes))


def style_case(half=48, width=24):
    filters, styles = [], []
    for of, out in (3, width), (width, width), (width, 2 * width):
        filters += [torch.randn(out, of, 3, 3) * math.sqrt(2 / (9 * of)), torch.randn(out) * 0.1]
        styles.append(uniform((out, out), 0, 0.1))
    content = torch.rand(1, 2 * width, half, half)
    return Step(style, paint, plain=True), (torch.rand(1, 3, 2 * half, 2 * half), filters, styles, content)


def tabular_case(batch=1024, width=128):
    categories, numbers, rows, each = 8, 13, 500, 8
    p, running, kept = [], [], []
    for of in numbers + categories * each, width:
        p += [*layers(of, width), leaf(uniform((width,), 0.5, 1.5)), leaf(torch.randn(width))]
        running += [torch.zeros(width), torch.ones(width)]
        kept.append((torch.rand(batch, width) < 0.8).float())
    p += [*layers(width, 1), *(leaf(torch.randn(rows, each)) for _ in range(categories))]
    data = integers((batch, categories), rows), torch.randn(batch, numbers), kept, (torch.rand(batch) < 0.3).float()
    return Step(tabular, nesterov, 1), (p, normals(p, 1e-3), running, *data)


def gated_recurrent_case(batch=64, steps=16, width=128):
    into, own = layers(16, 3 * width), layers(width, 3 * width)
    p = [into[0], own[0], into[1], own[1], *layers(width, 1)]
    data = torch.randn(batch, steps, 16), torch.randn(batch)
    return Step(gated_recurrent, clipped_rmsprop, 1), (p, squares(p, 0.05), *data)


def double_q_case(batch=128, width=256):
    seen, actions = 64, 8
    p = layers(seen, width, width, actions)
    slow = [w.detach() + 0.01 * torch.randn(w.shape) for w in p]
    state = normals(p, 1e-3), squares(p, 0.01), torch.tensor(100.0), slow
    now = torch.randn(batch, seen), integers((batch,), actions), torch.randn(batch)
    later = torch.randn(batch, seen), (torch.rand(batch) < 0.1).float(), uniform((batch,), 0.2, 1)
    return DoubleQ(), (p, *state, *now, *later)


def low_rank_case(tokens=128, width=512):
    middle, words, rank = 8 * width // 3, 2 * width, 8

    def matrix(out, of):
        return torch.randn(out, of) / math.sqrt(of)

    frozen = [matrix(middle, width), matrix(width, middle), matrix(words, width)]
    p = [matrix(rank, width), matrix(middle, rank) * 0.1, matrix(rank, middle), matrix(width, rank) * 0.1]
    p = [leaf(w) for w in p]
    state = normals(p, 1e-3), squares(p, 0.01), torch.tensor(100.0)
    return Step(low_rank, adapters_adam, 3), (p, *state, frozen, torch.randn(tokens, width), integers((tokens,), words))


def rotation_case(batch=128, entities=4096):
    others, width, relations = 32, 64, 32
    p = [leaf(uniform((entities, 2 * width), -0.2, 0.2)), leaf(uniform((relations, width), -1, 1))]
    triples = integers((batch, 3), entities)
    triples[:, 1].remainder_(relations)
    return Step(rotation, adagrad, 1), (p, squares(p, 0.01), triples, integers((batch, others), entities))


CASES = {
    "variational_step_f32": (variational_case, {}),
    "gaussian_process_step_f64": (gaussian_process_case, {}),
    "burgers_step_f32": (burgers_case, {}),
    "two_view_step_f32": (two_view_case, {}),
    "coupling_flow_step_f32": (coupling_flow_case, {}),
    "citation_step_f32": (citation_case, {}),
    "style_step_f32": (style_case, {}),
    "tabular_step_f32": (tabular_case, {}),
    "gated_recurrent_step_f32": (gated_recurrent_case, {}),
    "double_q_step_f32": (double_q_case, {}),
    "low_rank_step_f32": (low_rank_case, {}),
    "rotation_step_f32": (rotation_case, {}),
}
