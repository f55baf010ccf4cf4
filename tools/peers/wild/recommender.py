"""Recommenders: embeddings, their products, their losses, and vector search."""

import torch
import torch.nn.functional as F

from .draw import integers, uniform


def factorization_machine(fields, embeddings, linear):
    e = F.embedding(fields, embeddings)
    pairs = (e.sum(1).square() - e.square().sum(1)).sum(-1) * 0.5
    single = linear.index_select(0, fields.view(-1)).view(fields.shape).sum(1)
    return torch.sigmoid(single + pairs)


def embedding_bag(bags, weights, embeddings):
    return (F.embedding(bags, embeddings) * weights[..., None]).sum(1)


def dot_interaction(dense, sparse, pairs):
    together = torch.cat([dense[:, None], sparse], 1)
    products = torch.bmm(together, together.transpose(1, 2)).flatten(1)
    return torch.cat([dense, products.index_select(1, pairs)], 1)


def pairwise_ranking(users, items, user, liked, other):
    difference = items.index_select(0, liked) - items.index_select(0, other)
    margin = (users.index_select(0, user) * difference).sum(-1)
    slope = (torch.sigmoid(margin) - 1) / user.shape[0]
    gradient = torch.zeros_like(users).index_add_(0, user, slope[:, None] * difference)
    return -F.logsigmoid(margin).mean(), gradient


def product_codes(x, codebooks):
    each = x.view(x.shape[0], codebooks.shape[0], -1).transpose(0, 1)
    distance = codebooks.square().sum(-1)[:, None] - 2 * torch.bmm(each, codebooks.transpose(1, 2))
    return distance.argmin(-1).t().to(torch.uint8).contiguous()


def factorization_machine_case(batch=16384, fields=26, width=16, values=131072):
    embeddings = torch.randn(values, width) * 0.1
    return factorization_machine, (integers((batch, fields), values), embeddings, torch.randn(values))


def embedding_bag_case(batch=4096, length=32, width=64, values=131072):
    bags = integers((batch, length), values)
    return embedding_bag, (bags, uniform((batch, length)), torch.randn(values, width))


def dot_interaction_case(batch=4096, fields=26, width=32):
    row, column = torch.tril_indices(fields + 1, fields + 1, -1)
    dense, sparse = torch.randn(batch, width), torch.randn(batch, fields, width)
    return dot_interaction, (dense, sparse, row * (fields + 1) + column)


def pairwise_ranking_case(batch=65536, users=65536, items=32768, width=32):
    tables = torch.randn(users, width) * 0.1, torch.randn(items, width) * 0.1
    drawn = integers((batch,), users), integers((batch,), items), integers((batch,), items)
    return pairwise_ranking, (*tables, *drawn)


def product_codes_case(rows=4096, parts=8, codes=256, width=8):
    return product_codes, (torch.randn(rows, parts * width), torch.randn(parts, codes, width))


CASES = {
    "factorization_machine_f32": (factorization_machine_case, {}),
    "embedding_bag_f32": (embedding_bag_case, {}),
    "dot_interaction_f32": (dot_interaction_case, {}),
    "pairwise_ranking_f32": (pairwise_ranking_case, {}),
    "product_codes_u8": (product_codes_case, {}),
}
