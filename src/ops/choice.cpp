#include "ops/choice.h"

#include <utility>

#include "ir/overlap.h"
#include "ops/schema.h"

namespace graft::ops {

namespace {

/// a [M, K] times b [K, N], plus bias [N] where there is one.
struct Matmul {
  View a, b, bias;
};

/// Of fp32, and each element in a place of its own: oneDNN refuses rows that overlap.
bool is_matrix(const View& v) {
  return v.sizes.size() == 2 && ir::is_non_overlapping(v) && v.dtype == c10::ScalarType::Float &&
         v.sizes[0] > 0 && v.sizes[1] > 0;
}

bool is_absent_or_one(const record::OperatorRecord& op, std::string_view name) {
  auto value = number(op, name);
  return !value || value->equal(1);
}

std::optional<Matmul> matmul_of(const record::Trace& trace, const record::OperatorRecord& op) {
  std::string name = full_name(op);
  bool with_bias = name == "aten::addmm";
  if ((!with_bias && name != "aten::mm") || takes_number(op)) return std::nullopt;
  auto operand = [&](std::string_view argument) {
    int index = argument_index(op, argument);
    int tensor = op.inputs[static_cast<size_t>(index)].tensors.at(0);
    return tensor < 0 ? View() : View(trace.tensors[static_cast<size_t>(tensor)]);
  };
  Matmul m;
  m.a = operand(with_bias ? "mat1" : "self");
  m.b = operand("mat2");
  if (!is_matrix(m.a) || !is_matrix(m.b)) return std::nullopt;
  if (!with_bias) return m;
  m.bias = operand("self");
  bool fits = m.bias.sizes == std::vector<int64_t>{m.b.sizes[1]} &&
              m.bias.dtype == c10::ScalarType::Float && is_absent_or_one(op, "alpha") &&
              is_absent_or_one(op, "beta");
  return fits ? std::optional(m) : std::nullopt;
}

View transposed(View v) {
  std::swap(v.sizes[0], v.sizes[1]);
  std::swap(v.strides[0], v.strides[1]);
  return v;
}

}  // namespace

std::optional<OtherRoutine> other_routine(const record::Trace& trace,
                                          const record::OperatorRecord& op) {
  auto m = matmul_of(trace, op);
  if (!m) return std::nullopt;
  // _linear_pointwise(X, W, B?, attr, scalars, algorithm): X times W transposed, plus B.
  OtherRoutine other{{{"mkldnn::_linear_pointwise", ""}, {}, {}, {}, {}, -1}, "oneDNN's"};
  using Kind = OperandKind;
  for (const View& view : {m->a, transposed(m->b), m->bias}) {
    ir::Extern::Slot slot{Kind::Tensor, {}, {-1}};
    if (view.storage >= 0) {
      slot.views = {static_cast<int>(other.call.inputs.size())};
      other.call.inputs.push_back(view);
    }
    other.call.slots.push_back(std::move(slot));
  }
  other.call.slots.push_back({Kind::Constant, {std::string("none")}, {}});
  other.call.slots.push_back({Kind::Constant, {ir::Constant::List{}}, {}});
  other.call.slots.push_back({Kind::Constant, {}, {}});
  return other;
}

}  // namespace graft::ops
