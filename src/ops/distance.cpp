// Distances between the rows of two matrices, one by one. Where eager multiplies matrices for them,
// so does the plan. And cross products.
#include <cmath>

#include "ops/reduce.h"
#include "ops/schema.h"
#include "ops/thresholds.h"

namespace graft::ops {

namespace {

using c10::ScalarType;
using ir::Op;
using ir::ReduceOp;
using ir::StatementBuilder;
using ir::Value;
using ir::View;
using record::OperatorRecord;

/// Of |a − b| over a row: their sum, the root of their squares' sum, the largest.
enum class Norm : uint8_t { One, Two, Largest };

std::optional<Norm> norm_of(const OperatorRecord& op) {
  const double p = number(op, "p").value_or(-1).toDouble();
  if (p == 1) return Norm::One;
  if (p == 2) return Norm::Two;
  if (std::isinf(p) && p > 0) return Norm::Largest;
  return std::nullopt;
}
constexpr const char* kOtherNorm = "a norm other than 1, 2 and infinity";

/// A dimension of one element in front of the last `behind`.
View with_axis(View view, size_t behind) {
  return with_unit_axis(view, view.sizes.size() - behind);
}

/// With its last two dimensions exchanged.
View turned(View view) {
  const size_t last = view.sizes.size() - 1;
  std::swap(view.sizes[last], view.sizes[last - 1]);
  std::swap(view.strides[last], view.strides[last - 1]);
  return view;
}

/// Empty, or why it stays extern. All operands have at least two dimensions.
std::string why_not(const std::vector<View>& ins, const View& out) {
  if (opmath(out.dtype) != out.dtype || !is_float(out.dtype)) return "of another dtype";
  if (ir::numel(out.sizes) == 0) return "there are no distances";
  for (const View& in : ins) {
    if (in.storage < 0 || in.sizes.size() < 2 || in.dtype != out.dtype) return "an unusual input";
    if (ir::numel(in.sizes) == 0) return "there are no columns";
    if (overlaps(in, {out})) return kOverlap;
  }
  return {};
}

bool multiplies(const OperatorRecord& op, Norm norm, const View& a, const View& b) {
  const int64_t mode = integer(op, "compute_mode", 0);
  auto rows = [](const View& view) { return view.sizes[view.sizes.size() - 2]; };
  const bool many = rows(a) > kMostRows || rows(b) > kMostRows;
  return norm == Norm::Two && (mode == 1 || (mode == 0 && many));
}

/// Axes: …, a's rows, b's rows, columns.
Fate distances(Context& ctx, const OperatorRecord& op) {
  const View a = ctx.tensor(op, 0), b = ctx.tensor(op, 1), out = ctx.output(op);
  const std::optional<Norm> norm = norm_of(op);
  if (!norm) return Fate::external(kOtherNorm);
  if (std::string why = why_not({a, b}, out); !why.empty()) return Fate::external(why);
  if (multiplies(op, *norm, a, b)) return Fate::external("a product of matrices");
  ctx.approximate(out.dtype);
  std::vector<int64_t> axes = out.sizes;
  axes.push_back(a.sizes.back());
  std::vector<bool> columns(axes.size(), false);
  columns.back() = true;
  StatementBuilder s(axes);
  const Value apart = (s.load(with_axis(a, 1)) - s.load(with_axis(b, 2))).op(Op::Abs);
  const bool largest = *norm == Norm::Largest;
  // Of NaNs the largest distance knows nothing, in eager.
  const Value each = largest              ? select(isnan(apart), apart.like(0), apart)
                     : *norm == Norm::Two ? apart * apart
                                          : apart;
  Value all = s.reduce(largest ? ReduceOp::Max : ReduceOp::Sum, each, columns,
                       largest ? out.dtype : ScalarType::Double);
  if (*norm == Norm::Two) all = all.op(Op::Sqrt);
  ctx.emit(s.store(with_axis(out, 0), all));
  return Fate::fused();
}

/// Of few columns each difference by itself, which is closer than eager's product of matrices
/// |a|² − 2 ab + |b|². Where that is no finite number, it is the result. (In Double nothing could
/// tell that the distance of a row from itself is 0, where eager has what rounding left.)
Fate distances_of_products(Context& ctx, const OperatorRecord& op) {
  constexpr int64_t kMostColumns = 6;
  const View a = ctx.tensor(op, 0), b = ctx.tensor(op, 1), out = ctx.output(op);
  if (std::string why = why_not({a, b}, out); !why.empty()) return Fate::external(why);
  const size_t rank = out.sizes.size();
  if (out.dtype != ScalarType::Float || a.sizes.back() > kMostColumns ||
      !ctx.settings.any_products || a.sizes.size() != rank || b.sizes.size() != rank)
    return Fate::external("a product of matrices");
  ctx.approximate(out.dtype);
  StatementBuilder s(out.sizes);
  const View across = turned(b);
  const Value zero = s.constant(0, out.dtype);
  const bool fused = ctx.settings.target.fma;
  Value direct = zero, products = zero, ones = zero, others = zero;
  for (int64_t k = 0; k < a.sizes.back(); ++k) {
    const Value x = s.load(narrow(a, rank - 1, k, 1)), y = s.load(narrow(across, rank - 2, k, 1)),
                apart = x - y;
    direct = direct + apart * apart;
    products = multiply_add(x * -2.0, y, products, fused);
    ones = ones + x * x, others = others + y * y;
  }
  const Value eagers = products + ones + others;
  const Value square =
      select(eq(eagers - eagers, zero), direct, select(lt(eagers, zero), zero, eagers));
  ctx.emit(s.store(out, square.op(Op::Sqrt)));
  return Fate::fused();
}

/// d distance / d a of one column, times the distance's gradient.
Value slope_of(Norm norm, Value apart, Value g, Value distance) {
  const Value zero = apart.like(0);
  if (norm == Norm::Two) return select(eq(distance, zero), zero, g * apart / distance);
  const Value sign =
      select(gt(apart, zero), apart.like(1), select(lt(apart, zero), apart.like(-1), apart));
  if (norm == Norm::One) return g * sign;
  const Value off = (apart.op(Op::Abs) - distance).op(Op::Abs);
  return g * sign * (1 - ir::min(apart.like(1), off.op(Op::Ceil)));
}

/// Axes: …, a's rows, columns, b's rows.
Fate distances_backward(Context& ctx, const OperatorRecord& op) {
  const View gradient = ctx.tensor(op, 0), a = ctx.tensor(op, 1), b = ctx.tensor(op, 2),
             distance = ctx.tensor(op, 4), out = ctx.output(op);
  const std::optional<Norm> norm = norm_of(op);
  if (!norm) return Fate::external(kOtherNorm);
  if (std::string why = why_not({gradient, a, b, distance}, out); !why.empty())
    return Fate::external(why);
  ctx.approximate(out.dtype);
  const View columns_of_b = turned(b);
  std::vector<int64_t> axes = out.sizes;
  axes.push_back(columns_of_b.sizes.back());
  std::vector<bool> rows(axes.size(), false);
  rows.back() = true;
  StatementBuilder s(axes);
  const Value apart = s.load(with_axis(a, 0)) - s.load(with_axis(columns_of_b, 2));
  const Value each =
      slope_of(*norm, apart, s.load(with_axis(gradient, 1)), s.load(with_axis(distance, 1)));
  const Value sum = s.reduce(ReduceOp::Sum, each, rows, ScalarType::Double);
  ctx.emit(s.store(with_axis(out, 0), sum));
  return Fate::fused();
}

/// Each element of the result is of the others of both vectors. From ATen's CrossKernel.cpp.
Fate cross(Context& ctx, const OperatorRecord& op) {
  const View a = ctx.tensor(op, 0), b = ctx.tensor(op, 1), out = ctx.output(op);
  if (a.storage < 0 || b.storage < 0 || !ctx.settings.target.loops(out.dtype) ||
      out.dtype == ScalarType::Bool || a.dtype != out.dtype || b.dtype != out.dtype ||
      overlaps(a, {out}) || overlaps(b, {out}))
    return Fate::external("an unusual input, or a result that overlaps it");
  const size_t rank = out.sizes.size(), axis = wrapped(integer(op, "dim", -1), rank);
  if (a.sizes.size() != rank || b.sizes.size() != rank)
    return Fate::external("operands of different ranks");
  const ScalarType type = out.dtype, compute = opmath(type);
  const bool fused = is_float(type) && ctx.settings.target.fma;
  for (int64_t i = 0; i < 3; ++i) {
    const View to = narrow(out, axis, i, 1);
    StatementBuilder s(to.sizes);
    auto at = [&](const View& x, int64_t k) {
      return s.load(narrow(x, axis, k % 3, 1)).to(compute);
    };
    const Value less = (at(a, i + 2) * at(b, i + 1)).to(type).to(compute);
    const Value value = is_reduced(type) ? (at(a, i + 1) * at(b, i + 2)).to(type).to(compute) - less
                                         : multiply_add(at(a, i + 1), at(b, i + 2), -less, fused);
    ctx.emit(s.store(to, value));
  }
  return Fate::fused();
}

}  // namespace

std::vector<Row> distance_rows() {
  return {
      {"aten::_cdist_forward", distances,
       "distances of rows by the norms 1, 2 and infinity, where eager multiplies no matrices"},
      {"aten::_euclidean_dist", distances_of_products,
       "where it does, in fp32 of up to 6 columns: the root of the differences' squares"},
      {"aten::_cdist_backward", distances_backward, "their gradient"},
      {"aten::linalg_cross", cross, "three products less three others"},
  };
}

}  // namespace graft::ops
