"""Strangers: steps that learn, unlike those of other files, and experts that choose."""

import math

import torch
import torch.nn.functional as F

from .draw import integers, uniform, wide
from .learners import Step, leaf, normals, squares


def preference(p, hidden, tokens, reference):
    adapted = hidden + F.linear(F.silu(F.linear(hidden, p[0])), p[1])
    logits = F.linear(adapted, p[2])[:, :-1]
    labels = tokens[:, 1:].clone()
    counts = labels != -100
    labels.masked_fill_(counts.logical_not(), 0)
    each = F.log_softmax(logits, -1).gather(2, labels[..., None]).squeeze(2)
    policy, given = (each * counts).sum(-1).chunk(2), reference.chunk(2)
    margin = 0.1 * ((policy[0] - policy[1]) - (given[0] - given[1]))
    return -(0.9 * F.logsigmoid(margin) + 0.1 * F.logsigmoid(-margin)).mean()


def rmsprop(p, gradients, sums):
    for w, g, s in zip(p, gradients, sums):
        s.mul_(0.99).addcmul_(g, g, value=0.01)
        w.addcdiv_(g, s.sqrt() + 1e-8, value=-1e-4)


def orthogonalised(gradient):
    tall = gradient.shape[0] > gradient.shape[1]
    x = gradient / (gradient.norm() + 1e-7)
    if tall:
        x = x.t()
    for _ in range(5):
        a = x @ x.t()
        b = -4.7750 * a + 2.0315 * (a @ a)
        x = 3.4445 * x + b @ x
    return x.t() if tall else x


def orthogonal(p, x, labels):
    h = F.linear(x, p[0])
    normal = p[3] * torch.tanh(p[2] * h) + p[4]
    mixed = h + F.linear(torch.relu(normal).square(), p[1])
    logits = 15 * torch.tanh(F.linear(mixed, p[5]) / 15)
    return F.cross_entropy(logits, labels, label_smoothing=0.1)


def muon(p, gradients, buffers):
    for i, (w, g, b) in enumerate(zip(p, gradients, buffers)):
        b.lerp_(g, 0.05)
        if i >= 2:
            w.sub_(b, alpha=0.01)
            continue
        update = orthogonalised(g.lerp(b, 0.95))
        w.mul_(1 - 0.02 * 0.01).sub_(update, alpha=0.02 * math.sqrt(max(1.0, g.shape[0] / g.shape[1])))


def masked_patches(p, images, places, noise):
    batch, side, width = images.shape[0], images.shape[2] // 8, places.shape[1]
    count = side * side
    kept = count // 4
    patches = images.reshape(batch, 3, side, 8, side, 8).permute(0, 2, 4, 3, 5, 1).reshape(batch, count, -1)
    shuffle = noise.argsort(1)
    restore = shuffle.argsort(1)
    chosen = shuffle[:, :kept, None].expand(batch, kept, width)
    seen = (F.linear(patches, p[0], p[1]) + places).gather(1, chosen)
    q, k, v = F.linear(F.layer_norm(seen, (width,), p[2], p[3]), p[4], p[5]).chunk(3, -1)
    scores = q @ k.transpose(1, 2) / math.sqrt(width)
    encoded = seen + F.linear(torch.softmax(scores, -1) @ v, p[6], p[7])
    blanks = p[8].expand(batch, count - kept, width)
    back = restore[..., None].expand(batch, count, width)
    everything = torch.cat([encoded, blanks], 1).gather(1, back) + places
    made = F.linear(F.gelu(F.linear(everything, p[9], p[10])), p[11], p[12])
    mean = patches.mean(-1, keepdim=True)
    variance = (patches - mean).square().mean(-1, keepdim=True)
    error = (made - (patches - mean) / (variance + 1e-6).sqrt()).square().mean(-1)
    hidden = torch.ones(batch, count)
    hidden[:, :kept] = 0
    hidden = hidden.gather(1, restore)
    return (error * hidden).sum() / hidden.sum()


def followed_descent(p, gradients, slow):
    for w, g, s in zip(p, gradients, slow):
        w.mul_(1 - 0.05 * 0.05).sub_(g, alpha=0.05)
        s.mul_(0.996).add_(w, alpha=0.004)


def three_convolutions(p, images):
    x = torch.relu(F.conv2d(images, p[0], p[1], padding=1))
    x = torch.relu(F.conv2d(x, p[2], p[3], stride=2, padding=1))
    x = torch.relu(F.conv2d(x, p[4], p[5], stride=2, padding=1))
    return F.linear(x.mean((2, 3)), p[6], p[7])


def mix_up(images, share):
    return share * images + (1 - share) * images.flip(0)


def sharpness_loss(p, mixed, labels, share):
    logits = three_convolutions(p, mixed)
    return share * F.cross_entropy(logits, labels) + (1 - share) * F.cross_entropy(logits, labels.flip(0))


def climb(p, gradients):
    scale = 0.05 / (torch.stack([g.norm() for g in gradients]).norm() + 1e-12)
    climbed = [g * scale for g in gradients]
    for w, c in zip(p, climbed):
        w.add_(c)
    return climbed


def down(p, gradients, climbed, velocities):
    for w, g, c, v in zip(p, gradients, climbed, velocities):
        w.sub_(c)
        w.sub_(v.mul_(0.9).add_(g + 5e-4 * w), alpha=0.05)


class Sharpness:
    """Up by the first gradient, and from there down by the second."""

    def __init__(self, mix=mix_up, loss=sharpness_loss, up=climb, update=down):
        self.mix, self.loss, self.up, self.update = mix, loss, up, update

    def compiled(self):
        return Sharpness(*(torch.compile(f) for f in (self.mix, self.loss, self.up, self.update)))

    def slope(self, p, *data):
        with torch.enable_grad():
            loss = self.loss(p, *data)
            return loss.detach(), torch.autograd.grad(loss, p)

    def __call__(self, p, velocities, images, labels, share):
        data = self.mix(images, share), labels, share
        loss, gradients = self.slope(p, *data)
        climbed = self.up(p, gradients)
        self.update(p, self.slope(p, *data)[1], climbed, velocities)
        return loss


def neural_field(p, x, time):
    now = torch.full((x.shape[0], 1), time)
    h = torch.tanh(F.linear(torch.cat([x, now], 1), p[0], p[1]))
    return F.linear(torch.tanh(F.linear(h, p[2], p[3])), p[4], p[5])


def neural_ode(p, x, wanted):
    y, energy, step = x, torch.zeros(()), 1 / 8
    for i in range(8):
        t = i * step
        k1 = neural_field(p, y, t)
        k2 = neural_field(p, y + step / 2 * k1, t + step / 2)
        k3 = neural_field(p, y + step / 2 * k2, t + step / 2)
        k4 = neural_field(p, y + step * k3, t + step)
        energy = energy + step * k1.square().sum(1).mean()
        y = y + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return F.mse_loss(y, wanted) + 0.01 * energy


def amsgrad(p, gradients, first, second, highest, steps):
    steps.add_(1)
    by_first, by_second = 1 - 0.9**steps, 1 - 0.999**steps
    for w, g, m, v, most in zip(p, gradients, first, second, highest):
        m.lerp_(g, 0.1)
        v.mul_(0.999).addcmul_(g, g, value=0.001)
        most.copy_(torch.maximum(most, v))
        w.sub_(1e-3 * (m / by_first) / ((most / by_second).sqrt() + 1e-8))


def garch(p, returns):
    base, shock = F.softplus(p[0]), 0.2 * torch.sigmoid(p[1])
    leverage, memory = 0.2 * torch.sigmoid(p[2]), 0.7 * torch.sigmoid(p[3])
    variance = returns.square().mean(1)
    total = torch.zeros_like(variance)
    for t in range(returns.shape[1]):
        r = returns[:, t]
        square = r.square()
        total = total + variance.log() + square / variance
        variance = base + torch.where(r < 0, shock + leverage, shock) * square + memory * variance
    return 0.5 * (total / returns.shape[1] + math.log(2 * math.pi)).mean()


def rprop(p, gradients, steps, before):
    for w, g, s, b in zip(p, gradients, steps, before):
        agreed = g * b
        shorter = torch.where(agreed < 0, s * 0.5, s)
        s.copy_(torch.where(agreed > 0, s * 1.2, shorter).clamp(1e-6, 50))
        kept = g.masked_fill(agreed < 0, 0)
        w.sub_(kept.sign() * s)
        b.copy_(kept)


def rosenbrock(x):
    a, b = x[..., ::2], x[..., 1::2]
    return (100 * (b - a.square()).square() + (1 - a).square()).sum(-1)


def rosenbrock_slope(x):
    a, b, out = x[..., ::2], x[..., 1::2], torch.empty_like(x)
    out[..., ::2] = -400 * a * (b - a.square()) - 2 * (1 - a)
    out[..., 1::2] = 200 * (b - a.square())
    return out


def limited_memory_step(x, last_x, last_gradient, moves, changes, rates):
    count, gradient = moves.shape[0], rosenbrock_slope(x)
    moves.copy_(torch.roll(moves, -1, 0))
    changes.copy_(torch.roll(changes, -1, 0))
    moves[-1] = x - last_x
    changes[-1] = gradient - last_gradient
    last_x.copy_(x)
    last_gradient.copy_(gradient)
    curved = (moves * changes).sum(1)
    rho = torch.where(curved > 1e-10, curved.reciprocal(), 0)
    direction, alphas = gradient, [None] * count
    for i in reversed(range(count)):
        alphas[i] = rho[i] * moves[i].dot(direction)
        direction = direction - alphas[i] * changes[i]
    newest, curve = changes[-1], curved[-1]
    direction = direction * torch.where(curve > 1e-10, curve / newest.dot(newest), 1)
    for i in range(count):
        beta = rho[i] * changes[i].dot(direction)
        direction = direction + (alphas[i] - beta) * moves[i]
    candidates = x - rates[:, None] * direction
    values = rosenbrock(candidates)
    x.copy_(candidates.index_select(0, values.argmin(0, keepdim=True)).squeeze(0))
    return values.amin(0)


def expert_choice(x, gate, up, down, capacity):
    experts, width = gate.shape[0], x.shape[1]
    affinity = torch.softmax(wide(x) @ wide(gate).t(), -1)
    weights, chosen = affinity.t().topk(capacity, -1)
    tokens = chosen.reshape(-1)
    picked = x.index_select(0, tokens).view(experts, capacity, width)
    halves = torch.bmm(picked, up).chunk(2, -1)
    made = torch.bmm(F.silu(halves[0]) * halves[1], down)
    weighted = made * weights[..., None].to(made.dtype)
    count = torch.zeros(x.shape[0], dtype=torch.int64).scatter_add_(0, tokens, torch.ones_like(tokens))
    return torch.zeros_like(x).index_add_(0, tokens, weighted.view(-1, width)), count


def drawn(*sizes, of=100):
    return leaf(torch.randn(sizes) / math.sqrt(of))


def preference_case(pairs=4, length=48, width=128):
    words, rank = 16 * width, 8
    p = [drawn(rank, width, of=width), drawn(width, rank, of=rank), drawn(words, width, of=width)]
    tokens, place = integers((2 * pairs, length), words), torch.arange(length)
    ends = length // 2 + 1 + integers((2 * pairs, 1), length // 2)
    tokens.masked_fill_((place < length // 3) | (place >= ends), -100)
    reference = torch.randn(2 * pairs) - math.log(words) * (tokens != -100).sum(1).float()
    data = torch.randn(2 * pairs, length, width), tokens, reference
    return Step(preference, rmsprop, 1), (p, squares(p, 1e-3), *data)


def orthogonal_case(batch=128, features=256, width=192):
    classes = 10
    p = [drawn(width, features, of=features), drawn(width, width, of=width), leaf(torch.full((1,), 0.5))]
    p += [leaf(uniform((width,), 0.5, 1.5)), drawn(width), drawn(classes, width, of=width)]
    data = torch.randn(batch, features), integers((batch,), classes)
    return Step(orthogonal, muon, 1), (p, normals(p, 1e-3), *data)


def masked_patches_case(batch=16, side=8, width=128):
    pixels, count = 3 * 8 * 8, side * side
    p = [drawn(width, pixels, of=pixels), drawn(width), leaf(uniform((width,), 0.5, 1.5)), drawn(width)]
    p += [drawn(3 * width, width, of=width), drawn(3 * width), drawn(width, width, of=width), drawn(width)]
    p += [drawn(1, 1, width), drawn(2 * width, width, of=width), drawn(2 * width)]
    p += [drawn(pixels, 2 * width, of=2 * width), drawn(pixels)]
    data = torch.rand(batch, 3, 8 * side, 8 * side), torch.randn(count, width) * 0.1, torch.rand(batch, count)
    return Step(masked_patches, followed_descent, 1), (p, normals(p, 0.1), *data)


def sharpness_case(batch=16, side=32, width=16):
    classes, p = 10, []
    for of, out in (3, width), (width, 2 * width), (2 * width, 4 * width):
        p += [drawn(out, of, 3, 3, of=4 * of), drawn(out)]
    p += [drawn(classes, 4 * width, of=4 * width), drawn(classes)]
    data = torch.randn(batch, 3, side, side), integers((batch,), classes), torch.tensor(0.7)
    return Sharpness(), (p, normals(p, 1e-2), *data)


def neural_ode_case(batch=256, width=64):
    dimensions = 4
    p = [drawn(width, dimensions + 1, of=dimensions), drawn(width), drawn(width, width, of=width), drawn(width)]
    p += [drawn(dimensions, width, of=width), drawn(dimensions)]
    state = normals(p, 0.01), squares(p, 0.1), squares(p, 0.1), torch.tensor(100.0)
    return Step(neural_ode, amsgrad, 4), (p, *state, *(torch.randn(batch, dimensions) for _ in range(2)))


def garch_case(series=8192, days=64):
    p = [drawn(series, of=4) for _ in range(4)]
    steps = [uniform((series,), 0.005, 0.02) for _ in range(4)]
    return Step(garch, rprop, 2), (p, steps, normals(p, 1e-3), torch.randn(series, days))


def limited_memory_case(pairs=131072, memory=6):
    size = 2 * pairs
    x = torch.randn(size)
    last, moves = x - 0.01 * torch.randn(size), 0.01 * torch.randn(memory, size)
    rates = 0.25 ** torch.arange(5.0)
    rates[-1] = 0  # so that no step goes up
    changes = moves * uniform((memory, size), 100, 300)
    return limited_memory_step, (x, last, rosenbrock_slope(last), moves, changes, rates)


def expert_choice_case(tokens=512, width=256, experts=8, middle=256):
    def made(*sizes, of=1):
        return (torch.randn(sizes) / math.sqrt(of)).bfloat16()

    weights = made(experts, width, 2 * middle, of=width), made(experts, middle, width, of=middle)
    gate = made(experts, width, of=width)
    return expert_choice, (made(tokens, width), gate, *weights, 3 * tokens // (2 * experts))


CASES = {
    "preference_step_f32": (preference_case, {}),
    "orthogonal_step_f32": (orthogonal_case, {}),
    "masked_patches_step_f32": (masked_patches_case, {}),
    "sharpness_step_f32": (sharpness_case, {}),
    "neural_ode_step_f32": (neural_ode_case, {}),
    "garch_step_f32": (garch_case, {}),
    "limited_memory_step_f32": (limited_memory_case, {}),
    "expert_choice_bf16": (expert_choice_case, {}),
}
