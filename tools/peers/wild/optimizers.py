"""Optimizers' steps and what goes before them. All change their arguments, as the originals do."""

import torch

from .draw import uniform, wide


def lion(parameters, gradients, momenta):
    for p, g, m in zip(parameters, gradients, momenta):
        update = (m * 0.9 + g * 0.1).sign()
        p.mul_(1 - 1e-4 * 0.1).add_(update, alpha=-1e-4)
        m.mul_(0.99).add_(g, alpha=0.01)


def lamb(parameters, gradients, first, second):
    for p, g, m, v in zip(parameters, gradients, first, second):
        m.mul_(0.9).add_(g, alpha=0.1)
        v.mul_(0.999).addcmul_(g, g, value=0.001)
        update = m / (v.sqrt() + 1e-6) + 0.01 * p
        trust = (p.norm() / update.norm().clamp_min(1e-6)).clamp_max(10)
        p.sub_(update * trust, alpha=1e-3)


def adafactor(parameter, gradient, rows, columns):
    square = gradient.square() + 1e-30
    rows.mul_(0.99).add_(square.mean(1), alpha=0.01)
    columns.mul_(0.99).add_(square.mean(0), alpha=0.01)
    by_row = (rows / rows.mean()).rsqrt()[:, None]
    update = gradient * by_row * columns.rsqrt()
    parameter.sub_(update / update.square().mean().sqrt().clamp_min(1), alpha=1e-3)


def clip_gradients(gradients):
    total = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in gradients]))
    scale = (1 / (total + 1e-6)).clamp_max(1)
    for g in gradients:
        g.mul_(scale)
    return total


def mixed_precision_sgd(parameters, masters, gradients, momenta, loss_scale):
    finite = gradients[0].isfinite().all()
    for g in gradients[1:]:
        finite = finite.logical_and(g.isfinite().all())
    for p, master, g, m in zip(parameters, masters, gradients, momenta):
        moved = m * 0.9 + wide(g) / loss_scale
        m.copy_(torch.where(finite, moved, m))
        master.sub_(torch.where(finite, moved, 0), alpha=1e-3)
        p.copy_(master)


def foreach_sgd(parameters, gradients, momenta):
    decayed = torch._foreach_add(gradients, parameters, alpha=1e-4)
    torch._foreach_mul_(momenta, 0.9)
    torch._foreach_add_(momenta, decayed)
    torch._foreach_add_(decayed, momenta, alpha=0.9)
    torch._foreach_add_(parameters, decayed, alpha=-1e-2)


def shampoo(parameter, gradient, left, right, left_root, right_root):
    left.mul_(0.95).add_(gradient @ gradient.t(), alpha=0.05)
    right.mul_(0.95).add_(gradient.t() @ gradient, alpha=0.05)
    direction = left_root @ gradient @ right_root
    parameter.sub_(direction * (gradient.norm() / direction.norm().clamp_min(1e-12)), alpha=1e-3)


def lists(count, side, number):
    return [[torch.randn(side, side) for _ in range(count)] for _ in range(number)]


def lion_case(count=4, side=1024):
    return lion, tuple(lists(count, side, 3))


def lamb_case(count=4, side=1024):
    return lamb, (*lists(count, side, 3), [uniform((side, side), 0.01, 1) for _ in range(count)])


def adafactor_case(rows=2048, columns=2048):
    moments = uniform((rows,), 0.5, 2), uniform((columns,), 0.5, 2)
    return adafactor, (torch.randn(rows, columns), torch.randn(rows, columns), *moments)


def clip_gradients_case(count=8, side=1024):
    return clip_gradients, tuple(lists(count, side, 1))


def mixed_precision_sgd_case(count=4, side=1024):
    masters, gradients, momenta = lists(count, side, 3)
    bf16 = [[t.bfloat16() for t in tensors] for tensors in (masters, gradients)]
    return mixed_precision_sgd, (bf16[0], masters, bf16[1], momenta, torch.tensor(1024.0))


def foreach_sgd_case(count=8, side=768):
    return foreach_sgd, tuple(lists(count, side, 3))


def shampoo_case(rows=512, columns=384):
    statistics, roots = [], []
    for side in (rows, columns):
        x = torch.randn(side, side)
        statistics.append(x @ x.t() / side)
        roots.append(torch.eye(side) + torch.randn(side, side) * (0.1 / side))
    return shampoo, (torch.randn(rows, columns), torch.randn(rows, columns), *statistics, *roots)


CASES = {
    "lion_f32": (lion_case, {}),
    "lamb_f32": (lamb_case, {}),
    "adafactor_f32": (adafactor_case, {}),
    "clip_gradients_f32": (clip_gradients_case, {}),
    "mixed_precision_sgd_bf16": (mixed_precision_sgd_case, {}),
    "foreach_sgd_f32": (foreach_sgd_case, {}),
    "shampoo_f32": (shampoo_case, {}),
}
