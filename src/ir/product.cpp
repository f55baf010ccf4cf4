#include "ir/product.h"

namespace graft::ir {

namespace {

bool is_plain_sum(const Statement& s) {
  return s.reduction && s.reduction->op == ReduceOp::Sum && !s.reduction->scan &&
         s.reduction->type == ScalarType::Float && !s.repeated() && s.store.indirect.empty() &&
         s.store.dtype == ScalarType::Float &&
         s.expr.nodes[static_cast<size_t>(s.value)].op == Op::Reduced;
}

}  // namespace

std::optional<ProductAxes> product_axes(const Statement& s) {
  if (!is_plain_sum(s)) return {};
  const Node& input = s.expr.nodes[static_cast<size_t>(s.reduction->input)];
  if (input.op != Op::Mul) return {};
  ProductAxes found;
  size_t* const loads[] = {&found.left, &found.right};
  ScalarType* const types[] = {&found.left_type, &found.right_type};
  for (size_t k = 0; k < 2; ++k) {
    const Node* node = &s.expr.nodes[static_cast<size_t>(input.in[k])];
    // Widened, after it was rounded.
    for (int casts = 0; casts < 2 && node->op == Op::Cast; ++casts) {
      *types[k] = node->type;
      node = &s.expr.nodes[static_cast<size_t>(node->in[0])];
    }
    if (node->op != Op::Load) return {};
    *loads[k] = static_cast<size_t>(node->payload);
    const Access& load = s.loads[*loads[k]];
    if ((load.dtype != ScalarType::Float && !is_half(load.dtype)) || !load.indirect.empty())
      return {};
    if (!is_half(load.dtype)) continue;
    if (is_half(*types[k]) && *types[k] != load.dtype) return {};
    *types[k] = load.dtype;
  }
  std::vector<size_t> terms;
  for (size_t a = 0; a < s.axes.size(); ++a) {
    const bool in_left = s.loads[found.left].strides[a] != 0,
               in_right = s.loads[found.right].strides[a] != 0;
    if (s.reduction->axes[a])
      terms.push_back(a);
    else
      (in_left && in_right ? found.batch : in_right ? found.columns : found.rows).push_back(a);
  }
  if (terms.empty() || found.rows.empty() || found.columns.empty()) return {};
  found.terms = terms.front();
  if (terms.size() == 1) return found;
  const Access &left = s.loads[found.left], &right = s.loads[found.right];
  const size_t last = terms.back();
  if (terms.size() != 2 || s.axes[last] != 2 || right.strides[last] != 1 ||
      left.strides[terms.front()] != 2 * left.strides[last])
    return {};
  found.in_pair = last;
  return found;
}

}  // namespace graft::ir
