// Copies, fills, conversions, and loops of steps in place.
#include "fuzz/generate.h"

namespace graft::fuzz {

namespace {

Operand integers(std::vector<int64_t> numbers) {
  return constant_of(c10::IValue(std::move(numbers)));
}
Operand integer(int64_t number) {
  return constant_of(number);
}

/// A conversion. Numbers that do not fit an integer type have no defined result in C++: they are
/// clamped before.
void convert(Generator& g, int x) {
  static const std::vector<at::ScalarType> types = {
      at::kFloat, at::kFloat, at::kDouble, at::kHalf, at::kBFloat16,
      at::kLong,  at::kInt,   at::kByte,   at::kBool, at::kChar};
  at::ScalarType to = g.random.pick(types);
  if (at::isFloatingType(g.tensor(x).scalar_type()) && !at::isFloatingType(to) && to != at::kBool) {
    x = g.add("aten::nan_to_num",
              {value_of(x), constant_of(0.0), constant_of(1.0), constant_of(2.0)});
    if (x < 0) return;
    x = g.add("aten::clamp", {value_of(x), integer(0), integer(100)});
    if (x < 0) return;
  }
  g.add("aten::_to_copy", {value_of(x), constant_of(static_cast<int64_t>(to))});
}

bool copies_safely(at::ScalarType from, at::ScalarType to) {
  return at::isFloatingType(to) || !at::isFloatingType(from) || to == at::kBool;
}

void copy_into(Generator& g, int x) {
  int from = g.pick_beside(x);
  if (from < 0 || !copies_safely(g.tensor(from).scalar_type(), g.tensor(x).scalar_type())) return;
  g.add("aten::copy_", {value_of(x), value_of(from)});
}

}  // namespace

void add_copy(Generator& g) {
  int x = g.pick_of_rank(g.random.chance(0.7) ? 2 : 0);
  if (x < 0) return;
  int64_t rank = g.tensor(x).dim(), dim = g.dim_of(x);
  switch (g.random.below(14)) {
    case 0:
    case 1:
    case 2:
      return copy_into(g, x);
    case 3:
    case 4:
      return convert(g, x);
    case 5:
      g.add("aten::clone", {value_of(x)});
      return;
    case 6:
      g.add("aten::contiguous", {value_of(x)});
      return;
    case 7:
      g.add("aten::fill_.Scalar", {value_of(x), integer(g.random.between(-2, 2))});
      return;
    case 8:
      g.add("aten::zero_", {value_of(x)});
      return;
    case 9:
      if (rank > 1)
        g.add(g.random.chance(0.5) ? "aten::tril" : "aten::triu",
              {value_of(x), integer(g.random.between(-1, 2))});
      return;
    case 10:
      g.add("aten::flip", {value_of(x), integers({dim})});
      return;
    case 11:
      g.add("aten::roll", {value_of(x), integers({g.random.between(-3, 3)}), integers({dim})});
      return;
    case 12:
      if (rank > 0)
        g.add(
            "aten::constant_pad_nd",
            {value_of(x), integers({g.random.between(-1, 3), g.random.between(0, 3)}), integer(1)});
      return;
    default:
      g.add(g.random.chance(0.5) ? "aten::zeros_like" : "aten::ones_like", {value_of(x)});
      return;
  }
}

/// x[:, i] = f(x[:, i], x[:, j]) for i = 1, 2, …: what recurrences, triangular solves and
/// quantisers do. With a fresh sum carried along, or rows instead of columns.
void add_loop(Generator& g) {
  int x = g.pick([](const at::Tensor& t) {
    return t.dim() == 2 && t.size(0) > 1 && t.size(1) > 2 && at::isFloatingType(t.scalar_type());
  });
  if (x < 0) return;
  if (g.random.chance(0.5)) x = g.add("aten::clone", {value_of(x)});
  if (x < 0) return;
  int64_t dim = g.random.chance(0.7) ? 1 : 0;
  int64_t count = std::min<int64_t>(g.tensor(x).size(dim) - 1, g.random.between(3, 12));
  static const std::vector<std::string> updates = {"aten::add_.Tensor", "aten::mul_.Tensor",
                                                   "aten::sub_.Tensor", "aten::copy_"};
  std::string update = g.random.pick(updates);
  bool tail = g.random.chance(0.4), squash = g.random.chance(0.5);
  for (int64_t i = 0; i < count; ++i) {
    int here = g.add("aten::select.int", {value_of(x), integer(dim), integer(i)});
    if (here < 0) return;
    int value = g.add(squash ? "aten::round" : "aten::neg", {value_of(here)});
    if (value < 0) return;
    int target;
    if (tail) {
      // All that is left: shrinks by one at each step.
      target = g.add("aten::slice.Tensor", {value_of(x), integer(dim), integer(i + 1)});
      value = g.add("aten::unsqueeze", {value_of(value), integer(dim)});
    } else {
      target = g.add("aten::select.int", {value_of(x), integer(dim), integer(i + 1)});
    }
    if (target < 0 || value < 0) return;
    g.add(update, {value_of(target), value_of(value)});
  }
}

}  // namespace graft::fuzz
