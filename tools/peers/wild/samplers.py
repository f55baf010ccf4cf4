"""Samplers: diffusion steps, tokens."""

import torch

from .draw import integers, uniform


def ddim_step(x, predicted, alphas, now, after):
    without, given = predicted.chunk(2, 0)
    noise = without + 7.5 * (given - without)
    alpha = alphas.index_select(0, now).view(-1, 1, 1, 1)
    beyond = alphas.index_select(0, after).view(-1, 1, 1, 1)
    image = ((x - (1 - alpha).sqrt() * noise) / alpha.sqrt()).clamp(-3, 3)
    return beyond.sqrt() * image + (1 - beyond).sqrt() * noise


def euler_ancestral(x, denoised, noise, levels, step):
    sigma, after = levels[step], levels[step + 1]
    share = (sigma.square() - after.square()) / sigma.square()
    up = torch.minimum(after, (after.square() * share).sqrt())
    down = (after.square() - up.square()).sqrt()
    slope = (x - denoised) / sigma
    return x + slope * (down - sigma) + noise * up


def top_k_sample(logits, uniforms, count):
    best, tokens = (logits / 0.8).topk(count, -1)
    share = torch.softmax(best, -1)
    below = share.cumsum(-1) < uniforms[:, None]
    choice = below.sum(-1, keepdim=True).clamp_max(count - 1)
    return tokens.gather(1, choice).squeeze(1), share.gather(1, choice).squeeze(1)


def penalised_distribution(logits, previous):
    score = logits.gather(1, previous)
    penalised = torch.where(score < 0, score * 1.3, score / 1.3)
    p = torch.softmax(logits.scatter(1, previous, penalised), -1)
    kept = torch.where(p < 0.05 * p.amax(-1, keepdim=True), 0, p)
    return kept / kept.sum(-1, keepdim=True)


def speculative_check(draft, target, tokens, uniforms):
    index = tokens[..., None]
    ratio = (target.gather(2, index) / draft.gather(2, index)).squeeze(-1)
    stands = (uniforms < ratio).long().cumprod(1).sum(1)
    rest = (target - draft).clamp_min(0)
    return stands, rest / rest.sum(-1, keepdim=True)


def ddim_step_case(batch=4, channels=4, side=64):
    x, predicted = torch.randn(batch, channels, side, side), torch.randn(2 * batch, channels, side, side)
    after = integers((batch,), 980)
    return ddim_step, (x, predicted, (1 - torch.linspace(1e-4, 0.02, 1000)).cumprod(0), after + 20, after)


def euler_ancestral_case(batch=16, channels=4, side=256):
    x, denoised, noise = (torch.randn(batch, channels, side, side) for _ in range(3))
    return euler_ancestral, (x * 10, denoised, noise, uniform((21,), 0.1, 14.6).sort(descending=True).values, 3)


def top_k_sample_case(batch=16, count=50, vocabulary=32000):
    return top_k_sample, (torch.randn(batch, vocabulary) * 3, uniform((batch,)), count)


def penalised_distribution_case(batch=8, previous=256, vocabulary=32000):
    return penalised_distribution, (torch.randn(batch, vocabulary) * 3, integers((batch, previous), vocabulary))


def speculative_check_case(batch=32, drafted=4, vocabulary=32000):
    draft, target = (torch.softmax(torch.randn(batch, drafted, vocabulary) * 2, -1) for _ in range(2))
    return speculative_check, (draft, target, integers((batch, drafted), vocabulary), uniform((batch, drafted)))


CASES = {
    "ddim_step_f32": (ddim_step_case, {}),
    "euler_ancestral_f32": (euler_ancestral_case, {}),
    "top_k_sample_f32": (top_k_sample_case, {}),
    "penalised_distribution_f32": (penalised_distribution_case, {}),
    "speculative_check_f32": (speculative_check_case, {}),
}
