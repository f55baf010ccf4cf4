// Minimum cuts of a directed graph, by augmenting along shortest paths (Dinic's algorithm).
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

namespace graft::passes {

class MinCut {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  explicit MinCut(size_t nodes) : edges_of_(nodes) {}
  /// Separating the two costs so much where `from` ends up with the source and `to` with the sink.
  void edge(size_t from, size_t to, double cost);
  /// For each node: is it on the source's side? Empty where every cut costs kNever.
  std::vector<bool> cut(size_t source, size_t sink);

 private:
  struct Edge {
    size_t to;
    double left;  ///< capacity
  };
  bool level(size_t source, size_t sink);
  double push(size_t node, size_t sink, double most);

  std::vector<Edge> edges_;  ///< each followed by its reverse
  std::vector<std::vector<size_t>> edges_of_;
  std::vector<int> level_;
  std::vector<size_t> next_;
};

}  // namespace graft::passes
