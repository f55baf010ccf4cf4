// Graphs and point clouds: messages along edges, neighbours.

#include <ATen/ATen.h>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

/// A graph convolution's messages: features (N, D) of each edge's source times the edge's weight
/// (E), added up at its target; then bias and ReLU.
at::Tensor graph_convolution(const at::Tensor& features, const at::Tensor& source,
                             const at::Tensor& target, const at::Tensor& weight,
                             const at::Tensor& bias) {
  const at::Tensor messages = features.index_select(0, source) * weight.unsqueeze(1);
  return at::relu(at::zeros_like(features).index_add_(0, target, messages) + bias);
}

/// A graph attention layer after its projection: features (N, H, D), scores of a node as source and
/// as target (N, H).
at::Tensor graph_attention(const at::Tensor& features, const at::Tensor& as_source,
                           const at::Tensor& as_target, const at::Tensor& source,
                           const at::Tensor& target) {
  const at::Tensor score =
      at::leaky_relu(as_source.index_select(0, source) + as_target.index_select(0, target), 0.2);
  const at::Tensor weight = (score - score.max()).exp();
  const at::Tensor total = at::zeros_like(as_target).index_add_(0, target, weight);
  const at::Tensor share = weight / (total.index_select(0, target) + 1e-16);
  const at::Tensor messages = features.index_select(0, source) * share.unsqueeze(-1);
  return at::elu(at::zeros_like(features).index_add_(0, target, messages));
}

/// PageRank: `rounds` steps of the ranks (N) along weighted edges (E).
at::Tensor page_rank(const at::Tensor& start, const at::Tensor& source, const at::Tensor& target,
                     const at::Tensor& weight, int64_t rounds) {
  const double nodes = static_cast<double>(start.size(0));
  at::Tensor rank = start;
  for (int64_t i = 0; i < rounds; ++i) {
    const at::Tensor flow = rank.index_select(0, source) * weight;
    rank = at::zeros_like(rank).scatter_add_(0, target, flow) * 0.85 + 0.15 / nodes;
  }
  return rank;
}

/// A GraphSAGE layer over sampled neighbours (S, K): a node's own features beside the mean of its
/// neighbours', normalised.
at::Tensor sage_mean(const at::Tensor& features, const at::Tensor& nodes,
                     const at::Tensor& neighbours) {
  const at::Tensor around = features.index_select(0, neighbours.view(-1))
                                .view({neighbours.size(0), neighbours.size(1), -1})
                                .mean(1);
  const at::Tensor h = at::relu(at::cat({features.index_select(0, nodes), around}, 1));
  return h / h.norm(2, 1, /*keepdim=*/true).clamp_min(1e-12);
}

/// How far a point lies from its nearest ones, in standard deviations over its cloud: points
/// (B, N, 3) to (B, N).
at::Tensor outlier_scores(const at::Tensor& points, int64_t neighbours) {
  const at::Tensor distance = (points.unsqueeze(2) - points.unsqueeze(1)).square().sum(-1);
  const at::Tensor nearest =
      std::get<0>(distance.topk(neighbours + 1, -1, /*largest=*/false)).slice(-1, 1);
  const at::Tensor mean = nearest.sqrt().mean(-1);
  const at::Tensor deviation = at::std(mean, {-1}, /*unbiased=*/true, /*keepdim=*/true);
  return (mean - mean.mean(-1, /*keepdim=*/true)) / deviation;
}

Instance graph_convolution_case(const Options& o) {
  const int64_t nodes = o.integer("nodes"), edges = o.integer("edges"), width = o.integer("width");
  Draw draw(o);
  const at::Tensor features = draw.normal({nodes, width});
  const at::Tensor source = draw.integers({edges}, nodes), target = draw.integers({edges}, nodes);
  return bounded(instance_of(graph_convolution, features, source, target, draw.uniform({edges}),
                             draw.normal({width})),
                 4 * (distinct(source) + 1 + nodes) * width + (8 + 8 + 4) * edges,
                 2 * edges * width + 2 * nodes * width);
}

Instance graph_attention_case(const Options& o) {
  const int64_t nodes = o.integer("nodes"), edges = o.integer("edges"), heads = o.integer("heads"),
                width = o.integer("width");
  Draw draw(o);
  const at::Tensor features = draw.normal({nodes, heads, width});
  const at::Tensor as_source = draw.normal({nodes, heads}), as_target = draw.normal({nodes, heads});
  const at::Tensor source = draw.integers({edges}, nodes), target = draw.integers({edges}, nodes);
  const int64_t sources = distinct(source), targets = distinct(target);
  return bounded(instance_of(graph_attention, features, as_source, as_target, source, target),
                 4 * heads * (sources * (width + 1) + targets + nodes * width) + 16 * edges,
                 edges * heads * (2 * width + kFunction + 6) + nodes * heads * width * kFunction);
}

Instance page_rank_case(const Options& o) {
  const int64_t nodes = o.integer("nodes"), edges = o.integer("edges"),
                rounds = o.integer("rounds");
  Draw draw(o);
  const at::Tensor source = draw.integers({edges}, nodes), target = draw.integers({edges}, nodes);
  const at::Tensor degree =
      at::zeros({nodes}).scatter_add_(0, source, at::ones({edges})).clamp_min(1);
  const at::Tensor start = draw.uniform({nodes});
  return bounded(instance_of(page_rank, start / start.sum(), source, target,
                             1 / degree.index_select(0, source), rounds),
                 4 * 2 * nodes + (8 + 8 + 4) * edges, rounds * (2 * edges + 2 * nodes));
}

Instance sage_mean_case(const Options& o) {
  const int64_t nodes = o.integer("nodes"), samples = o.integer("samples"),
                fanout = o.integer("fanout"), width = o.integer("width");
  Draw draw(o);
  const at::Tensor features = draw.normal({nodes, width});
  const at::Tensor own = draw.integers({samples}, nodes),
                   neighbours = draw.integers({samples, fanout}, nodes);
  const int64_t touched = distinct(at::cat({own, neighbours.view(-1)}));
  return bounded(instance_of(sage_mean, features, own, neighbours),
                 4 * width * (touched + 2 * samples) + 8 * samples * (1 + fanout),
                 samples * width * (fanout + 1 + 2 * 4));
}

Instance outlier_scores_case(const Options& o) {
  const int64_t batch = o.integer("batch"), points = o.integer("points"),
                neighbours = o.integer("neighbours");
  return bounded(instance_of(outlier_scores, Draw(o).normal({batch, points, 3}), neighbours),
                 4 * batch * points * 4, 9 * batch * points * points);
}

std::vector<Axis> edge_axes(const char* nodes, const char* edges) {
  return {{"nodes", nodes, "67", "nodes"}, {"edges", edges, "403", "edges"}};
}

}  // namespace

std::vector<Workload> graph_cases() {
  std::vector<Axis> convolution = edge_axes("16384", "131072"),
                    attention = edge_axes("8192", "65536"), ranks = edge_axes("4096", "32768");
  convolution.push_back({"width", "64", "13", "features of a node"});
  attention.push_back({"heads", "4", "3", "heads"});
  attention.push_back({"width", "32", "7", "features of a head"});
  ranks.push_back({"rounds", "10", "3", "steps"});
  return {
      {"graph_convolution_f32", "weighted messages added up at their targets", convolution,
       graph_convolution_case, kSums},
      {"graph_attention_f32", "messages weighted by a softmax over a target's edges", attention,
       graph_attention_case, kSums},
      {"page_rank_f32", "PageRank's steps along edges", ranks, page_rank_case, kSums},
      {"sage_mean_f32",
       "features beside the mean of sampled neighbours'",
       {{"nodes", "65536", "211", "nodes"},
        {"samples", "8192", "37", "nodes that are computed"},
        {"fanout", "10", "3", "neighbours of one"},
        {"width", "128", "13", "features of a node"}},
       sage_mean_case,
       kSums},
      {"outlier_scores_f32",
       "mean distance to the nearest points, standardised",
       {{"batch", "4", "2", "clouds"},
        {"points", "1024", "67", "of a cloud"},
        {"neighbours", "16", "5", "nearest points"}},
       outlier_scores_case,
       10 * kSums},
  };
}

}  // namespace graft::workloads::wild
