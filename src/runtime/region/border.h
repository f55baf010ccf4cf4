// Where a region's part of autograd's graph begins.
#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace graft::runtime {

/// As torch holds nodes: up to 2.14 a std::shared_ptr, then a c10::intrusive_ptr.
using NodePointer = decltype(torch::autograd::Edge::function);

template <class N, class... Arguments>
NodePointer make_node(Arguments&&... arguments) {
  if constexpr (std::is_same_v<NodePointer, std::shared_ptr<torch::autograd::Node>>)
    return NodePointer(new N(std::forward<Arguments>(arguments)...),
                       [](N* node) { deleteNode(node); });  // torch's, which only these have
  else
    return c10::make_intrusive<N>(std::forward<Arguments>(arguments)...);
}

/// A node between an argument and what computed it, which hands gradients on. While its one edge is
/// taken away, a backward of the region ends here.
class Border final : public torch::autograd::Node {
 public:
  std::string name() const override { return "GraftArgument"; }
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    return std::move(gradients);
  }
};

inline NodePointer make_border(const at::Tensor& argument, torch::autograd::Edge behind) {
  NodePointer border = make_node<Border>();
  border->add_input_metadata(argument);
  border->set_next_edges({std::move(behind)});
  return border;
}

/// Takes the borders' edges away for a while.
class ClosedBorders {
 public:
  using Nodes = std::vector<NodePointer>;
  explicit ClosedBorders(Nodes borders) : borders_(std::move(borders)) {
    for (const auto& border : borders_)
      behind_.push_back(std::exchange(border->next_edges()[0], torch::autograd::Edge()));
  }
  ~ClosedBorders() {
    for (size_t k = 0; k < borders_.size(); ++k)
      borders_[k]->next_edges()[0] = std::move(behind_[k]);
  }
  ClosedBorders(const ClosedBorders&) = delete;
  ClosedBorders& operator=(const ClosedBorders&) = delete;

 private:
  const Nodes borders_;
  torch::autograd::edge_list behind_;
};

}  // namespace graft::runtime
