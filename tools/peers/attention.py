"""The set `attention` (workloads/attention_cases.cpp) for torch.compile: forward by its flex_attention with a block mask, where it
has one for the CPU; backward, which that lacks there, by the formula written out."""

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from training import Region

WINDOW, DOCUMENT, CAP = 256, 384, 20.0


def causal(b, h, q, kv):
    return q >= kv


def window(b, h, q, kv):
    return (q >= kv) & (q - kv < WINDOW)


def document(b, h, q, kv):
    return (q >= kv) & (q // DOCUMENT == kv // DOCUMENT)


def slope(heads):
    def change(score, b, h, q, kv):
        return score - torch.exp2((h + 1) * (-8.0 / heads)) * (q - kv)

    return change


def cap(heads):
    def change(score, b, h, q, kv):
        return torch.tanh(score / CAP) * CAP

    return change


KINDS = {
    "causal": (None, causal),
    "window": (None, window),
    "alibi": (slope, causal),
    "document": (None, document),
    "softcap": (cap, causal),
}


def heads_of(batch, heads, sequence, head_size):
    return [torch.randn(batch, heads, sequence, head_size) for _ in range(4)]


def forward_case(kind):
    change, mask = KINDS[kind]

    def case(batch=1, heads=8, sequence=2048, head_size=64):
        blocks = create_block_mask(mask, None, None, sequence, sequence, device="cpu")
        score = change(heads) if change else None

        def attend(q, k, v):
            return flex_attention(q, k, v, score_mod=score, block_mask=blocks)

        return attend, tuple(heads_of(batch, heads, sequence, head_size)[:3])

    return case


def train_case(kind):
    change, mask = KINDS[kind]

    def case(batch=1, heads=8, sequence=2048, head_size=64):
        h = torch.arange(heads).view(heads, 1, 1)
        q_at, kv_at = torch.arange(sequence).view(sequence, 1), torch.arange(sequence)
        score = change(heads) if change else None

        def attend(q, k, v):
            s = q @ k.transpose(-1, -2) * head_size**-0.5
            if score:
                s = score(s, 0, h, q_at, kv_at)
            return torch.softmax(torch.where(mask(0, h, q_at, kv_at), s, float("-inf")), -1) @ v

        return Region(attend, 3), tuple(heads_of(batch, heads, sequence, head_size))

    return case


CASES = {
    "causal_attention_f32": (forward_case("causal"), {}),
    "window_attention_f32": (forward_case("window"), {}),
    "alibi_attention_f32": (forward_case("alibi"), {}),
    "document_attention_f32": (forward_case("document"), {}),
    "softcap_attention_f32": (forward_case("softcap"), {}),
    "causal_attention_train_f32": (train_case("causal"), {}),
    "window_attention_train_f32": (train_case("window"), {}),
    "alibi_attention_train_f32": (train_case("alibi"), {}),
    "document_attention_train_f32": (train_case("document"), {}),
    "softcap_attention_train_f32": (train_case("softcap"), {}),
}
