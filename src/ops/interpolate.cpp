// Upsampling between neighbours: linear, bilinear, trilinear.
#include "ops/fill.h"
#include "ops/reduce.h"
#include "ops/schema.h"
#include "ops/upsampling.h"

namespace graft::ops {

namespace {

using c10::ScalarType;
using ir::Op;
using ir::StatementBuilder;
using ir::Value;
using ir::View;
using record::OperatorRecord;

/// Along one dimension: elements of the input per element of the result.
struct Stretch {
  int64_t from = 1, to = 1;  ///< extents
  double step = 1;
  bool corners = false;  ///< the first and the last elements lie on each other
};

Stretch stretch_of(const OperatorRecord& op, const char* given, int64_t from, int64_t to) {
  Stretch stretch{from, to, 1, boolean(op, "align_corners", false)};
  const std::optional<c10::Scalar> factor = number(op, given);
  if (stretch.corners)
    stretch.step = to > 1 ? static_cast<double>(from - 1) / static_cast<double>(to - 1) : 0;
  else if (factor && factor->toDouble() > 0)
    stretch.step = 1.0 / factor->toDouble();
  else
    stretch.step = static_cast<double>(from) / static_cast<double>(to);
  return stretch;
}

/// a * b + c, rounded once where ATen's kernels are compiled so.
Value multiply_add(Value a, Value b, Value c, bool fused) {
  return fused ? fma(a, b, c) : a * b + c;
}

/// The two neighbours of each element of the result, and the second one's weight.
struct Neighbours {
  Value first, second, weight;
};

Neighbours neighbours(StatementBuilder& s, const Stretch& stretch, size_t axis, ScalarType compute,
                      bool fused) {
  const Value to = s.axis(static_cast<int>(axis)), step = s.scalar(stretch.step, compute);
  const Value last = s.scalar(stretch.from - 1, ScalarType::Long);
  const Value at =
      stretch.corners
          ? step * to.to(compute)
          : ir::max(multiply_add(step, to.to(compute) + 0.5, s.constant(-0.5, compute), fused),
                    s.constant(0, compute));
  const Value first = ir::min(at.op(Op::Floor).to(ScalarType::Long), last);
  const Value weight =
      ir::min(ir::max(at - first.to(compute), s.constant(0, compute)), s.constant(1, compute));
  return {first, ir::min(first + s.integer(1, ScalarType::Long), last), weight};
}

/// Between the neighbours along the dimensions from `d` on, where `access` stands at one neighbour
/// along each dimension before it.
Value between(StatementBuilder& s, const View& in, const std::vector<Stretch>& stretches,
              const std::vector<Neighbours>& all, size_t d, ir::Access access, bool fused) {
  if (d == stretches.size()) return s.load(std::move(access));
  const size_t axis = kBefore + d;
  auto at = [&](Value place) {
    ir::Access next = access;
    next.indirect.push_back({place.id, in.strides[axis], stretches[d].from});
    return between(s, in, stretches, all, d + 1, std::move(next), fused);
  };
  const Value second = all[d].weight, first = 1.0 - second;
  return multiply_add(at(all[d].second), second, at(all[d].first) * first, fused);
}

Fate linear(Context& ctx, const OperatorRecord& op) {
  const View in = ctx.tensor(op, 0), out = ctx.output(op);
  const std::vector<const char*> factors = upsampling_factors(in, out);
  if (in.storage < 0 || in.dtype != out.dtype || factors.empty())
    return Fate::external("an unusual input");
  if (opmath(in.dtype) != in.dtype || !is_float(in.dtype))
    return Fate::external("weights of another dtype");
  for (size_t d = kBefore; d < in.sizes.size(); ++d)
    if (in.sizes[d] == out.sizes[d])  // ATen weighs a neighbour by 0, which infinities show
      return Fate::external("a dimension that keeps its size");
  if (overlaps(in, {out})) return Fate::external(kOverlap);
  if (ir::numel(out.sizes) == 0) return Fate::fused();
  ctx.approximate(in.dtype);
  // Of doubles its kernels round the product of a place, too.
  const bool fused = ctx.settings.target.fma, single = in.dtype == ScalarType::Float;
  StatementBuilder s(out.sizes);
  std::vector<Stretch> stretches;
  std::vector<Neighbours> all;
  ir::Access access = ir::access_of({in.storage, in.dtype, in.byte_offset, {}, {}}, out.sizes);
  for (size_t d = 0; d < kBefore; ++d)
    if (out.sizes[d] > 1) access.strides[d] = in.strides[d];
  for (size_t d = 0; d < factors.size(); ++d) {
    const size_t axis = kBefore + d;
    stretches.push_back(stretch_of(op, factors[d], in.sizes[axis], out.sizes[axis]));
    all.push_back(neighbours(s, stretches[d], axis, in.dtype, fused && single));
  }
  ctx.emit(s.store(out, between(s, in, stretches, all, 0, std::move(access), fused)));
  return Fate::fused();
}

}  // namespace

std::vector<Row> interpolation_rows() {
  const char* what = "weighted means of neighbours, whose places are computed as ATen does";
  return {{"aten::upsample_linear1d", linear, what},
          {"aten::upsample_bilinear2d", linear, what},
          {"aten::upsample_trilinear3d", linear, what}};
}

}  // namespace graft::ops
