#include "passes/min_cut.h"

#include <algorithm>
#include <queue>

namespace graft::passes {

void MinCut::edge(size_t from, size_t to, double cost) {
  edges_of_[from].push_back(edges_.size());
  edges_.push_back({to, cost});
  edges_of_[to].push_back(edges_.size());
  edges_.push_back({from, 0});
}

bool MinCut::level(size_t source, size_t sink) {
  level_.assign(edges_of_.size(), -1);
  level_[source] = 0;
  std::queue<size_t> reached;
  reached.push(source);
  while (!reached.empty()) {
    const size_t node = reached.front();
    reached.pop();
    for (size_t e : edges_of_[node]) {
      if (edges_[e].left <= 0 || level_[edges_[e].to] >= 0) continue;
      level_[edges_[e].to] = level_[node] + 1;
      reached.push(edges_[e].to);
    }
  }
  return level_[sink] >= 0;
}

double MinCut::push(size_t node, size_t sink, double most) {
  if (node == sink) return most;
  for (; next_[node] < edges_of_[node].size(); ++next_[node]) {
    const size_t e = edges_of_[node][next_[node]];
    Edge& edge = edges_[e];
    if (edge.left <= 0 || level_[edge.to] != level_[node] + 1) continue;
    const double pushed = push(edge.to, sink, std::min(most, edge.left));
    if (pushed <= 0) continue;
    edge.left -= pushed;
    edges_[e ^ 1].left += pushed;
    return pushed;
  }
  return 0;
}

std::vector<bool> MinCut::cut(size_t source, size_t sink) {
  while (level(source, sink)) {
    next_.assign(edges_of_.size(), 0);
    for (double pushed; (pushed = push(source, sink, kNever)) > 0;)
      if (pushed == kNever) return {};
  }
  std::vector<bool> with_source(edges_of_.size());
  for (size_t node = 0; node < with_source.size(); ++node) with_source[node] = level_[node] >= 0;
  return with_source;
}

}  // namespace graft::passes
