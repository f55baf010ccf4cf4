"""Losses, forward."""

import torch
import torch.nn.functional as F

from .draw import integers, uniform, wide

IGNORED = -100


def token_loss(logits, targets):
    counts = targets != IGNORED
    log_p = torch.log_softmax(wide(logits), -1)
    picked = log_p.gather(1, targets.clamp_min(0)[:, None]).squeeze(1)
    return -torch.where(counts, picked, 0).sum() / counts.sum()


def focal_loss(logits, targets):
    entropy = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    p = torch.sigmoid(logits)
    right = p * targets + (1 - p) * (1 - targets)
    balance = 0.25 * targets + 0.75 * (1 - targets)
    return (balance * (1 - right).square() * entropy).sum() / targets.sum().clamp_min(1)


def distillation(student, teacher, labels):
    divergence = F.kl_div(torch.log_softmax(student / 4, -1), torch.softmax(teacher / 4, -1), reduction="sum")
    return 0.9 * 16 / student.shape[0] * divergence + 0.1 * F.cross_entropy(student, labels)


def dice_loss(logits, labels):
    p = torch.softmax(logits, 1)
    truth = F.one_hot(labels, logits.shape[1]).permute(0, 3, 1, 2).to(p.dtype)
    common, total = (p * truth).sum((2, 3)), (p + truth).sum((2, 3))
    return 1 - ((2 * common + 1) / (total + 1)).mean()


def evidence_bound(logits, pixels, mean, log_variance):
    reconstruction = F.binary_cross_entropy_with_logits(logits, pixels, reduction="sum")
    divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum()
    return (reconstruction + divergence) / logits.shape[0]


def q_learning(values, after, actions, rewards, ends):
    target = rewards + 0.99 * (1 - ends) * after.amax(1)
    value = values.gather(1, actions[:, None]).squeeze(1)
    return F.huber_loss(value, target), (target - value).abs()


def token_loss_case(tokens=1024, vocabulary=32000):
    targets = integers((tokens,), vocabulary).masked_fill(uniform((tokens,)) < 0.1, IGNORED)
    return token_loss, (torch.randn(tokens, vocabulary).bfloat16(), targets)


def focal_loss_case(anchors=49152, classes=80):
    return focal_loss, (torch.randn(anchors, classes), (uniform((anchors, classes)) < 0.02).float())


def distillation_case(batch=4096, classes=1000):
    student, teacher = (torch.randn(batch, classes) * 3 for _ in range(2))
    return distillation, (student, teacher, integers((batch,), classes))


def dice_loss_case(batch=4, classes=19, side=256):
    return dice_loss, (torch.randn(batch, classes, side, side), integers((batch, side, side), classes))


def evidence_bound_case(batch=4096, pixels=784, code=32):
    codes = torch.randn(batch, code), torch.randn(batch, code)
    return evidence_bound, (torch.randn(batch, pixels), uniform((batch, pixels)), *codes)


def q_learning_case(batch=262144, actions=18):
    values, after = torch.randn(batch, actions), torch.randn(batch, actions)
    ends = (uniform((batch,)) < 0.05).float()
    return q_learning, (values, after, integers((batch,), actions), torch.randn(batch), ends)


CASES = {
    "token_loss_bf16": (token_loss_case, {}),
    "focal_loss_f32": (focal_loss_case, {}),
    "distillation_f32": (distillation_case, {}),
    "dice_loss_f32": (dice_loss_case, {}),
    "evidence_bound_f32": (evidence_bound_case, {}),
    "q_learning_f32": (q_learning_case, {}),
}
