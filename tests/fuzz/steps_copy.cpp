// Copies, fills, conversions, and loops of steps in place.
#include "fuzz/generate.h"

namespace graft::fuzz {

namespace {

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

}  // namespace graft::fuzz
