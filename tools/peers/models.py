"""The set `models` (workloads/minilm/cases.cpp) for torch.compile: MiniLM's encoder of the same sizes, with random weights."""

import torch
import torch.nn.functional as F

HIDDEN, HEADS, LAYERS, INNER, VOCABULARY, POSITIONS = 384, 12, 6, 1536, 30522, 512


def encoder_case(batch=8, length=64, attention="sdpa"):
    def weight(*sizes):
        return torch.randn(*sizes) / sizes[-1] ** 0.5

    def linear(rows, columns):
        return weight(rows, columns), torch.zeros(rows)

    norm = torch.ones(HIDDEN), torch.zeros(HIDDEN)
    words, positions, types = weight(VOCABULARY, HIDDEN), weight(POSITIONS, HIDDEN), weight(2, HIDDEN)
    layers = [
        ([linear(HIDDEN, HIDDEN) for _ in range(4)], linear(INNER, HIDDEN), linear(HIDDEN, INNER)) for _ in range(LAYERS)
    ]

    def layer_norm(x):
        return F.layer_norm(x, (HIDDEN,), *norm, 1e-12)

    def attend(q, k, v, bias):
        q, k, v = (x.view(batch, length, HEADS, -1).transpose(1, 2) for x in (q, k, v))
        if attention == "sdpa":
            out = F.scaled_dot_product_attention(q, k, v, bias.expand(batch, 1, length, length))
        else:
            scores = q @ k.transpose(-1, -2) * (1 / q.shape[-1] ** 0.5)
            out = torch.softmax(scores + bias, -1) @ v
        return out.transpose(1, 2).reshape(batch, length, HIDDEN)

    def encode(ids, mask):
        bias = ((1 - mask).float() * torch.finfo(torch.float32).min)[:, None, None]
        x = layer_norm(F.embedding(ids, words) + types[0] + positions[:length])
        for (query, key, value, out), up, down in layers:
            context = attend(F.linear(x, *query), F.linear(x, *key), F.linear(x, *value), bias)
            x = layer_norm(F.linear(context, *out) + x)
            x = layer_norm(F.linear(F.gelu(F.linear(x, *up)), *down) + x)
        keep = mask.unsqueeze(-1).float()
        mean = (x * keep).sum(1) / keep.sum(1).clamp(min=1e-9)
        return mean / mean.norm(dim=1, keepdim=True).clamp(min=1e-12)

    return encode, [torch.randint(0, VOCABULARY, (batch, length)), torch.ones(batch, length, dtype=torch.long)]


CASES = {
    "minilm_f32": (encoder_case, {}),
}
