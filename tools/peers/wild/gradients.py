"""Gradients written by hand: of losses, activations, softmax, embeddings; those of biases are column sums."""

import math

import torch

from .draw import integers, uniform, wide


def cross_entropy_backward(logits, targets):
    index = targets[:, None]
    gradient = torch.softmax(logits, -1)
    gradient.scatter_add_(1, index, torch.full(index.shape, -1, dtype=logits.dtype))
    return gradient.div_(logits.shape[0])


def attention_backward(gradient, weights, kept):
    inner = gradient * kept / 0.9
    along = (inner * weights).sum(-1, keepdim=True)
    return weights * (inner - along) * 0.125


def gelu_bias_backward(gradient, x, bias):
    k = math.sqrt(2 / math.pi)
    z = wide(x) + wide(bias)
    cube = 0.044715 * z * z * z
    t = torch.tanh(k * (z + cube))
    slope = 0.5 * (1 + t) + 0.5 * (1 - t * t) * k * (z + 3 * cube)
    by_x = wide(gradient) * slope
    return by_x.to(gradient.dtype), by_x.sum(0)


def glu_backward(gradient, x):
    a, b = x.chunk(2, -1)
    gate = torch.sigmoid(b)
    by_a = gradient * gate
    by_x = torch.cat([by_a, by_a * a * (1 - gate)], -1)
    return by_x, by_x.sum(0)


def huber_backward(prediction, target, weight):
    error = prediction - target
    size = error.abs()
    small = size <= 1
    loss = torch.where(small, 0.5 * error * error, size - 0.5) * weight
    gradient = torch.where(small, error, error.sign()) * weight / error.numel()
    return loss.mean(), gradient, gradient.sum(0)


def embedding_backward(gradient, tokens, vocabulary):
    counts = (tokens != 0).to(gradient.dtype)[:, None]
    zeros = torch.zeros((vocabulary, gradient.shape[1]), dtype=gradient.dtype)
    return zeros.index_add_(0, tokens, gradient * counts)


def cross_entropy_backward_case(tokens=1024, vocabulary=16384):
    return cross_entropy_backward, (torch.randn(tokens, vocabulary), integers((tokens,), vocabulary))


def attention_backward_case(heads=8, tokens=1024):
    shape = heads, tokens, tokens
    weights = torch.softmax(torch.randn(shape), -1)
    return attention_backward, (torch.randn(shape), weights, uniform(shape) < 0.9)


def gelu_bias_backward_case(rows=4096, columns=3072):
    gradient, x = (torch.randn(rows, columns).bfloat16() for _ in range(2))
    return gelu_bias_backward, (gradient, x, torch.randn(columns).bfloat16())


def glu_backward_case(rows=4096, columns=1536):
    return glu_backward, (torch.randn(rows, columns), torch.randn(rows, 2 * columns))


def huber_backward_case(rows=65536, columns=64):
    return huber_backward, (torch.randn(rows, columns), torch.randn(rows, columns), uniform((rows, 1)))


def embedding_backward_case(tokens=16384, vocabulary=8192, width=256):
    ids = (uniform((tokens,)).pow(4) * vocabulary).long().clamp_max(vocabulary - 1)
    return embedding_backward, (torch.randn(tokens, width), ids, vocabulary)


CASES = {
    "cross_entropy_backward_f32": (cross_entropy_backward_case, {}),
    "attention_backward_f32": (attention_backward_case, {}),
    "gelu_bias_backward_bf16": (gelu_bias_backward_case, {}),
    "glu_backward_f32": (glu_backward_case, {}),
    "huber_backward_f32": (huber_backward_case, {}),
    "embedding_backward_f32": (embedding_backward_case, {}),
}
