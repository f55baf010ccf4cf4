"""Graphs and point clouds: messages along edges, neighbours."""

import torch
import torch.nn.functional as F

from .draw import integers, uniform


def graph_convolution(features, source, target, weight, bias):
    messages = features.index_select(0, source) * weight[:, None]
    return torch.relu(torch.zeros_like(features).index_add_(0, target, messages) + bias)


def graph_attention(features, as_source, as_target, source, target):
    score = F.leaky_relu(as_source.index_select(0, source) + as_target.index_select(0, target), 0.2)
    weight = (score - score.max()).exp()
    total = torch.zeros_like(as_target).index_add_(0, target, weight)
    share = weight / (total.index_select(0, target) + 1e-16)
    messages = features.index_select(0, source) * share[..., None]
    return F.elu(torch.zeros_like(features).index_add_(0, target, messages))


def page_rank(start, source, target, weight, rounds):
    rank = start
    for _ in range(rounds):
        flow = rank.index_select(0, source) * weight
        rank = torch.zeros_like(rank).scatter_add_(0, target, flow) * 0.85 + 0.15 / start.shape[0]
    return rank


def sage_mean(features, nodes, neighbours):
    samples, fanout = neighbours.shape
    around = features.index_select(0, neighbours.view(-1)).view(samples, fanout, -1).mean(1)
    h = torch.relu(torch.cat([features.index_select(0, nodes), around], 1))
    return h / h.norm(2, 1, keepdim=True).clamp_min(1e-12)


def outlier_scores(points, neighbours):
    distance = (points[:, :, None] - points[:, None]).square().sum(-1)
    nearest = distance.topk(neighbours + 1, -1, largest=False).values[..., 1:]
    mean = nearest.sqrt().mean(-1)
    return (mean - mean.mean(-1, keepdim=True)) / mean.std(-1, keepdim=True)


def graph_convolution_case(nodes=16384, edges=131072, width=64):
    source, target = integers((edges,), nodes), integers((edges,), nodes)
    return graph_convolution, (torch.randn(nodes, width), source, target, uniform((edges,)), torch.randn(width))


def graph_attention_case(nodes=8192, edges=65536, heads=4, width=32):
    features, scores = torch.randn(nodes, heads, width), [torch.randn(nodes, heads) for _ in range(2)]
    return graph_attention, (features, *scores, integers((edges,), nodes), integers((edges,), nodes))


def page_rank_case(nodes=4096, edges=32768, rounds=10):
    source, target = integers((edges,), nodes), integers((edges,), nodes)
    degree = torch.zeros(nodes).scatter_add_(0, source, torch.ones(edges)).clamp_min(1)
    start = uniform((nodes,))
    return page_rank, (start / start.sum(), source, target, 1 / degree.index_select(0, source), rounds)


def sage_mean_case(nodes=65536, samples=8192, fanout=10, width=128):
    return sage_mean, (torch.randn(nodes, width), integers((samples,), nodes), integers((samples, fanout), nodes))


def outlier_scores_case(batch=4, points=1024, neighbours=16):
    return outlier_scores, (torch.randn(batch, points, 3), neighbours)


CASES = {
    "graph_convolution_f32": (graph_convolution_case, {}),
    "graph_attention_f32": (graph_attention_case, {}),
    "page_rank_f32": (page_rank_case, {}),
    "sage_mean_f32": (sage_mean_case, {}),
    "outlier_scores_f32": (outlier_scores_case, {}),
}
