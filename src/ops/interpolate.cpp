// Upsampling between neighbours: linear, bilinear, trilinear, bicubic.
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

/// The place in the input of element `to` of the result.
Value place_of(StatementBuilder& s, const Stretch& stretch, const Value& to, ScalarType compute,
               bool fused) {
  const Value step = s.scalar(stretch.step, compute), place = to.to(compute);
  if (stretch.corners) return step * place;
  return multiply_add(step, place + 0.5, s.constant(-0.5, compute), fused);
}

/// The neighbours of a place.
Neighbours neighbours_at(StatementBuilder& s, const Stretch& stretch, const Value& at,
                         ScalarType compute) {
  const Value last = s.scalar(stretch.from - 1, ScalarType::Long);
  const Value first = ir::min(at.op(Op::Floor).to(ScalarType::Long), last);
  const Value weight =
      ir::min(ir::max(at - first.to(compute), s.constant(0, compute)), s.constant(1, compute));
  return {first, ir::min(first + s.integer(1, ScalarType::Long), last), weight};
}

/// Of element `to` of the result. (Between corners no place lies before 0.)
Neighbours neighbours(StatementBuilder& s, const Stretch& stretch, const Value& to,
                      ScalarType compute, bool fused) {
  Value at = place_of(s, stretch, to, compute, fused);
  if (!stretch.corners) at = ir::max(at, s.constant(0, compute));
  return neighbours_at(s, stretch, at, compute);
}

/// What is read for an element of the result along one dimension.
struct Taps {
  std::vector<Value> places, weights;
};

Taps linear_taps(const Neighbours& n) {
  return {{n.first, n.second}, {1.0 - n.weight, n.weight}};
}

/// Cubic convolution, by ATen's formulas. (Where factors are powers of 2, with its bits.)
Taps cubic_taps(StatementBuilder& s, const Stretch& stretch, const Value& to, ScalarType compute,
                bool fused_place, bool fused) {
  const Value at = place_of(s, stretch, to, compute, fused_place);
  const Neighbours n = neighbours_at(s, stretch, at, compute);
  constexpr double kA = -0.75;
  const auto number = [&](double value) { return s.constant(value, compute); };
  const auto near = [&](const Value& x) {
    const Value sum = multiply_add(number(kA + 2), x, number(-(kA + 3)), fused);
    return multiply_add(sum * x, x, number(1), fused);
  };
  const auto far = [&](const Value& x) {
    Value sum = multiply_add(number(kA), x, number(-5 * kA), fused);
    sum = multiply_add(sum, x, number(8 * kA), fused);
    return multiply_add(sum, x, number(-4 * kA), fused);
  };
  const Value rest = 1.0 - n.weight;
  Taps taps{{}, {far(n.weight + 1.0), near(n.weight), near(rest), far(rest + 1.0)}};
  for (int64_t k = -1; k < 3; ++k) {
    const Value place = n.first + s.integer(k, ScalarType::Long);
    taps.places.push_back(ir::min(ir::max(place, s.integer(0, ScalarType::Long)),
                                  s.scalar(stretch.from - 1, ScalarType::Long)));
  }
  return taps;
}

/// a * by + b * with, rounded as compilers contract it in ATen's kernels.
Value weighted(const Value& a, const Value& by, const Value& b, const Value& with, bool fused) {
  return multiply_add(a, by, b * with, fused);
}

/// The upsampling of `from` along the dimensions [begin, end) into `to`, which has its other
/// extents.
class Interpolation {
 public:
  Interpolation(const View& from, const View& to, const std::vector<Stretch>& stretches,
                size_t begin, size_t end, bool cubic, bool fused)
      : from_(from),
        sizes_(to.sizes),
        compute_(opmath(from.dtype)),
        stretches_(stretches),
        begin_(begin),
        end_(end),
        fused_(fused),
        s_(to.sizes),
        all_(stretches.size()) {
    // Of doubles most of its kernels round the product of a place, too.
    const bool place = fused && compute_ == ScalarType::Float;
    for (size_t d = begin; d < end; ++d) {
      const Value to = s_.axis(static_cast<int>(kBefore + d));
      all_[d] = cubic ? cubic_taps(s_, stretches[d], to, compute_, place, fused)
                      : linear_taps(neighbours(s_, stretches[d], to, compute_, place));
    }
  }

  /// Along the last dimension first.
  Value nested() { return between(begin_, corner()); }

  /// Of two dimensions, the sum of four elements times the products of their weights.
  Value at_once() {
    const Taps &y = all_[begin_], &x = all_[begin_ + 1];
    const auto element = [&](size_t row, size_t column) {
      return load(next(next(corner(), begin_, y.places[row]), begin_ + 1, x.places[column]));
    };
    const auto weight = [&](size_t row, size_t column) {
      return y.weights[row] * x.weights[column];
    };
    Value sum = weighted(element(0, 0), weight(0, 0), element(0, 1), weight(0, 1), fused_);
    for (size_t column : {0, 1})
      sum = multiply_add(element(1, column), weight(1, column), sum, fused_);
    return sum;
  }

  ir::Statement into(const View& to, const Value& value) { return s_.store(to, value); }

 private:
  Value load(ir::Access access) { return s_.load(std::move(access)).to(compute_); }

  /// At the first element along what is interpolated.
  ir::Access corner() const {
    ir::Access access =
        ir::access_of({from_.storage, from_.dtype, from_.byte_offset, {}, {}}, sizes_);
    for (size_t a = 0; a < from_.sizes.size(); ++a)
      if ((a < kBefore + begin_ || a >= kBefore + end_) && from_.sizes[a] > 1)
        access.strides[a] = from_.strides[a];
    return access;
  }

  ir::Access next(ir::Access access, size_t d, const Value& place) const {
    access.indirect.push_back({place.id, from_.strides[kBefore + d], stretches_[d].from});
    return access;
  }

  /// Along the dimensions from `d` on, where `access` stands at one neighbour along each before it.
  Value between(size_t d, const ir::Access& access) {
    if (d == end_) return load(access);
    const Taps& taps = all_[d];
    std::vector<Value> values;
    for (const Value& place : taps.places) values.push_back(between(d + 1, next(access, d, place)));
    Value sum = weighted(values[0], taps.weights[0], values[1], taps.weights[1], fused_);
    for (size_t k = 2; k < values.size(); ++k)
      sum = multiply_add(values[k], taps.weights[k], sum, fused_);
    return sum;
  }

  View from_;
  std::vector<int64_t> sizes_;
  ScalarType compute_;
  const std::vector<Stretch>& stretches_;
  size_t begin_, end_;
  bool fused_;
  StatementBuilder s_;
  std::vector<Taps> all_;
};

/// Of both sides, that ATen's kernel of vectors takes wherever channels lie.
constexpr int64_t kMostSides = 128;

/// Does ATen's kernel of vectors compute it, with fewer channels than a vector has? (Those of whole
/// vectors round in another way.)
bool is_at_once(const View& in, const View& out, const ir::Target& target) {
  if (in.sizes.size() != kBefore + 2) return false;
  const int64_t channels = in.sizes[1],
                lanes = target.lanes * 4 / static_cast<int64_t>(c10::elementSize(in.dtype));
  const bool side_by_side = channels > 3 && in.strides[1] == 1 && in.strides[3] == channels &&
                            in.strides[2] == channels * in.sizes[3];
  return channels < lanes && (side_by_side || out.sizes[2] + out.sizes[3] <= kMostSides);
}

/// What a dimension makes of the others' elements is kept for all that read it, if it is not much
/// more than the result.
constexpr double kWorthKeeping = 1.5;

template <bool cubic>
Fate interpolate(Context& ctx, const OperatorRecord& op) {
  const View in = ctx.tensor(op, 0), out = ctx.output(op);
  const std::vector<const char*> factors = upsampling_factors(in, out);
  if (in.storage < 0 || in.dtype != out.dtype || factors.empty())
    return Fate::external("an unusual input");
  if (!is_float(in.dtype)) return Fate::external("weights of another dtype");
  if (cubic && in.dtype == ScalarType::Double)
    return Fate::external("places of doubles, which infinities show");
  for (size_t d = kBefore; d < in.sizes.size(); ++d)
    if (in.sizes[d] == out.sizes[d])  // ATen weighs a neighbour by 0, which infinities show
      return Fate::external("a dimension that keeps its size");
  if (overlaps(in, {out})) return Fate::external(kOverlap);
  if (ir::numel(out.sizes) == 0) return Fate::fused();
  ctx.approximate(in.dtype);
  std::vector<Stretch> stretches;
  for (size_t d = 0; d < factors.size(); ++d)
    stretches.push_back(stretch_of(op, factors[d], in.sizes[kBefore + d], out.sizes[kBefore + d]));
  const bool fused = ctx.settings.target.fma,
             at_once = !cubic && !ctx.settings.any_size && is_at_once(in, out, ctx.settings.target);
  View from = in;
  size_t end = factors.size();
  for (; end > 1 && !at_once; --end) {
    std::vector<int64_t> sizes = from.sizes;
    sizes[kBefore + end - 1] = out.sizes[kBefore + end - 1];
    if (static_cast<double>(ir::numel(sizes)) >
        kWorthKeeping * static_cast<double>(ir::numel(out.sizes)))
      break;
    const View made = ctx.temporary(sizes, opmath(in.dtype));
    Interpolation along(from, made, stretches, end - 1, end, cubic, fused);
    ctx.emit(along.into(made, along.nested()));
    from = made;
  }
  Interpolation rest(from, out, stretches, 0, end, cubic, fused);
  ctx.emit(rest.into(out, at_once ? rest.at_once() : rest.nested()));
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
  return {{"aten::upsample_linear1d", interpolate<false>, what},
          {"aten::upsample_bilinear2d", interpolate<false>, what},
          {"aten::upsample_trilinear3d", interpolate<false>, what},
          {"aten::upsample_bicubic2d", interpolate<true>,
           "likewise, by cubic convolution; not of fp64"},
          {"aten::upsample_linear1d_backward", linear_backward, backward},
          {"aten::upsample_bilinear2d_backward", linear_backward, backward},
          {"aten::upsample_trilinear3d_backward", linear_backward, backward}};
}

}  // namespace graft::ops
