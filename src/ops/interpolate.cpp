// Upsampling between neighbours: linear, bilinear, trilinear.
#include <cmath>

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

/// The two neighbours of each element of the result, and the second one's weight.
struct Neighbours {
  Value first, second, weight;
};

/// Of element `to` of the result.
Neighbours neighbours(StatementBuilder& s, const Stretch& stretch, Value to, ScalarType compute,
                      bool fused) {
  const Value step = s.scalar(stretch.step, compute);
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
  if (d == stretches.size()) return s.load(std::move(access)).to(opmath(in.dtype));
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
  if (!is_float(in.dtype)) return Fate::external("weights of another dtype");
  for (size_t d = kBefore; d < in.sizes.size(); ++d)
    if (in.sizes[d] == out.sizes[d])  // ATen weighs a neighbour by 0, which infinities show
      return Fate::external("a dimension that keeps its size");
  if (overlaps(in, {out})) return Fate::external(kOverlap);
  if (ir::numel(out.sizes) == 0) return Fate::fused();
  ctx.approximate(in.dtype);
  // Of doubles most of its kernels round the product of a place, too.
  const ScalarType compute = opmath(in.dtype);
  const bool fused = ctx.settings.target.fma, single = compute == ScalarType::Float;
  StatementBuilder s(out.sizes);
  std::vector<Stretch> stretches;
  std::vector<Neighbours> all;
  ir::Access access = ir::access_of({in.storage, in.dtype, in.byte_offset, {}, {}}, out.sizes);
  for (size_t d = 0; d < kBefore; ++d)
    if (out.sizes[d] > 1) access.strides[d] = in.strides[d];
  for (size_t d = 0; d < factors.size(); ++d) {
    const size_t axis = kBefore + d;
    stretches.push_back(stretch_of(op, factors[d], in.sizes[axis], out.sizes[axis]));
    all.push_back(
        neighbours(s, stretches[d], s.axis(static_cast<int>(axis)), compute, fused && single));
  }
  ctx.emit(s.store(out, between(s, in, stretches, all, 0, std::move(access), fused)));
  return Fate::fused();
}

/// Along one dimension, elements of the result among which are all that element `i` of the input is
/// a neighbour of: `most`, from floor(i * per_element - before) on.
struct Reached {
  double per_element = 1, before = 0;
  int64_t most = 1;
};

/// Element o of the result lies at step (o + 0.5) − 0.5, or step o between corners; one more on
/// each side makes up for what rounding does. Those that would lie before 0 have element 1 as a
/// neighbour, by a weight of 0, which infinities show.
Reached reached_by(const Stretch& stretch) {
  const double step = stretch.step > 0 ? stretch.step : 1, shift = stretch.corners ? 0 : 0.5;
  return {1 / step, 1 / step + shift + 1, static_cast<int64_t>(std::ceil((2 + shift) / step)) + 3};
}

/// Does ATen compute places within [0, from) without a clamp to the last one?
bool stays_inside(const Stretch& stretch) {
  const double last = stretch.corners
                          ? stretch.step * static_cast<double>(stretch.to - 1)
                          : stretch.step * (static_cast<double>(stretch.to) - 0.5) - 0.5;
  return last < static_cast<double>(stretch.from) && (stretch.step > 0 || stretch.to == 1);
}

/// out[…, i, …] = the sum over the gradient's elements o that interpolate i, each times i's weight
/// in it.
void gather_back(Context& ctx, const View& gradient, const View& out, size_t d,
                 const Stretch& stretch, bool fused) {
  const ScalarType compute = opmath(gradient.dtype);
  const Reached reached = reached_by(stretch);
  std::vector<int64_t> axes = out.sizes;
  axes.push_back(reached.most);
  StatementBuilder s(axes);
  auto number = [&](int64_t value) { return s.scalar(value, ScalarType::Long); };
  const Value i = s.axis(static_cast<int>(d));
  const Value first =
      (i.to(ScalarType::Double) * s.scalar(reached.per_element, ScalarType::Double) -
       s.scalar(reached.before, ScalarType::Double))
          .op(Op::Floor)
          .to(ScalarType::Long);
  const Value o = first + s.axis(static_cast<int>(out.sizes.size()));
  const Value there = ge(o, number(0)) & lt(o, number(stretch.to));
  const Value place = ir::min(ir::max(o, number(0)), number(stretch.to - 1));
  const Neighbours n = neighbours(s, stretch, place, compute, fused);
  const Value none = s.constant(0, compute);
  ir::Access access =
      ir::access_of({gradient.storage, gradient.dtype, gradient.byte_offset, {}, {}}, axes);
  for (size_t k = 0; k < out.sizes.size(); ++k)
    if (k != d && out.sizes[k] > 1) access.strides[k] = gradient.strides[k];
  access.indirect.push_back({place.id, gradient.strides[d], stretch.to});
  const Value g = s.load(std::move(access)).to(compute);
  // No product where it is no neighbour: an infinity times 0 would be NaN.
  const Value term = select(there & eq(n.first, i), (1.0 - n.weight) * g, none) +
                     select(there & eq(n.second, i), n.weight * g, none);
  std::vector<bool> reduced(axes.size(), false);
  reduced.back() = true;
  const Value sum = s.reduce(ir::ReduceOp::Sum, term, reduced, ScalarType::Double);
  View to = out;
  to.sizes.push_back(1), to.strides.push_back(0);
  ctx.emit(s.store(to, sum));
}

/// Along one dimension after the other, the last one first.
Fate linear_backward(Context& ctx, const OperatorRecord& op) {
  View gradient = ctx.tensor(op, 0);
  const View out = ctx.output(op);
  const std::vector<const char*> factors = upsampling_factors(out, gradient);
  if (gradient.storage < 0 || gradient.dtype != out.dtype || !is_float(out.dtype) ||
      factors.empty() || overlaps(gradient, {out}))
    return Fate::external("an unusual gradient");
  if (ir::numel(out.sizes) == 0 || ir::numel(gradient.sizes) == 0)
    return Fate::external("there are no elements");
  const ScalarType compute = opmath(out.dtype);
  const bool fused = ctx.settings.target.fma && compute == ScalarType::Float;
  std::vector<Stretch> stretches;
  for (size_t d = 0; d < factors.size(); ++d) {
    const size_t axis = kBefore + d;
    stretches.push_back(stretch_of(op, factors[d], out.sizes[axis], gradient.sizes[axis]));
    if (out.sizes[axis] == gradient.sizes[axis])
      return Fate::external("a dimension that keeps its size");
    if (!stays_inside(stretches[d])) return Fate::external("factors that do not fit the sizes");
  }
  ctx.approximate(out.dtype);
  for (size_t d = factors.size(); d-- > 0;) {
    std::vector<int64_t> sizes = gradient.sizes;
    sizes[kBefore + d] = out.sizes[kBefore + d];
    const View next = d == 0 ? out : ctx.temporary(sizes, compute);
    gather_back(ctx, gradient, next, kBefore + d, stretches[d], fused);
    gradient = next;
  }
  return Fate::fused();
}

}  // namespace

std::vector<Row> interpolation_rows() {
  const char* what = "weighted means of neighbours, whose places are computed as ATen does";
  const char* backward = "the sum of what an element is part of, times its weight there";
  return {{"aten::upsample_linear1d", linear, what},
          {"aten::upsample_bilinear2d", linear, what},
          {"aten::upsample_trilinear3d", linear, what},
          {"aten::upsample_linear1d_backward", linear_backward, backward},
          {"aten::upsample_bilinear2d_backward", linear_backward, backward},
          {"aten::upsample_trilinear3d_backward", linear_backward, backward}};
}

}  // namespace graft::ops
