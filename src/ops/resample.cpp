// Upsampling by nearest neighbours.
#include <algorithm>
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

/// Copies of an element that are stored one by one, so that whole vectors of them are shuffled.
constexpr int64_t kMostCopies = 4;

/// How ATen finds the element that element `to` of a longer row is a copy of.
struct Scale {
  int64_t from = 1, to = 1;  ///< extents
  double step = 1;           ///< elements of `from` per element of `to`
  float float_step = 1;      ///< likewise, as computed in fp32

  int64_t source(int64_t at) const {
    if (from == to) return at;
    if (to == 2 * from) return at >> 1;
    return last(std::floor(static_cast<float>(at) * float_step));
  }
  /// ATen has several kernels, which take the factor literally or look for one and two first, and
  /// compute in fp32 or fp64. Which of them runs depends on sizes, layout and version.
  bool is_agreed() const {
    for (int64_t at = 0; at < to; ++at) {
      const double wide = static_cast<double>(at) * step;
      for (int64_t other : {last(std::floor(static_cast<float>(at) * float_step)),
                            last(std::floor(static_cast<float>(wide))), last(std::floor(wide))})
        if (other != source(at)) return false;
    }
    return true;
  }
  int64_t last(double place) const { return std::min(static_cast<int64_t>(place), from - 1); }
  /// How often each element comes, if all come as often, one behind the other; otherwise 0.
  int64_t repeats() const {
    const int64_t times = to / from;
    if (to % from != 0) return 0;
    for (int64_t at = 0; at < to; ++at)
      if (source(at) != at / times) return 0;
    return times;
  }
};

Scale scale_of(const OperatorRecord& op, const char* given, int64_t from, int64_t to) {
  const std::optional<c10::Scalar> factor = number(op, given);
  if (factor && factor->toDouble() > 0) {
    const double step = 1.0 / factor->toDouble();
    return {from, to, step, static_cast<float>(step)};
  }
  return {from, to, static_cast<double>(from) / static_cast<double>(to),
          static_cast<float>(from) / static_cast<float>(to)};
}

/// out[…, i * times + k] = in[…, i], in one statement per k along the last dimension.
void repeat(Context& ctx, const View& in, const View& out, const std::vector<Scale>& scales) {
  View from{in.storage, in.dtype, in.byte_offset, {}, {}},
      to{out.storage, out.dtype, out.byte_offset, {}, {}};
  auto axis = [&](int64_t extent, int64_t read, int64_t store) {
    from.sizes.push_back(extent);
    from.strides.push_back(read);
    to.sizes.push_back(extent);
    to.strides.push_back(store);
  };
  for (size_t d = 0; d < in.sizes.size(); ++d) {
    const int64_t times = d < kBefore ? 1 : scales[d - kBefore].repeats();
    axis(in.sizes[d], in.strides[d], times * out.strides[d]);
    if (times > 1 && (d + 1 < in.sizes.size() || times > kMostCopies))
      axis(times, 0, out.strides[d]);
  }
  const int64_t times = scales.back().repeats(), copies = times <= kMostCopies ? times : 1;
  for (int64_t k = 0; k < copies; ++k) {
    ctx.copy(from, to);
    to.byte_offset += out.strides.back() * static_cast<int64_t>(c10::elementSize(out.dtype));
  }
}

/// Through indices that are computed as ATen computes them.
void gather(Context& ctx, const View& in, const View& out, const std::vector<Scale>& scales) {
  StatementBuilder s(out.sizes);
  ir::Access load = ir::access_of({in.storage, in.dtype, in.byte_offset, {}, {}}, out.sizes);
  for (size_t d = 0; d < out.sizes.size(); ++d) {
    if (d < kBefore || scales[d - kBefore].from == scales[d - kBefore].to) {
      if (out.sizes[d] > 1) load.strides[d] = in.strides[d];
      continue;
    }
    const Scale& scale = scales[d - kBefore];
    const Value at = s.axis(static_cast<int>(d));
    Value source =
        scale.to == 2 * scale.from
            ? at.op(Op::Shr, s.integer(1, ScalarType::Long))
            : ir::min((at.to(ScalarType::Float) * s.scalar(scale.float_step, ScalarType::Float))
                          .op(Op::Floor)
                          .to(ScalarType::Long),
                      s.scalar(scale.from - 1, ScalarType::Long));
    load.indirect.push_back({source.id, in.strides[d], scale.from});
  }
  ctx.emit(s.store(out, s.load(std::move(load))));
}

std::vector<Scale> scales_of(const OperatorRecord& op, const View& from, const View& to) {
  const std::vector<const char*> factors = upsampling_factors(from, to);
  std::vector<Scale> scales;
  for (size_t d = 0; d < factors.size(); ++d)
    scales.push_back(scale_of(op, factors[d], from.sizes[kBefore + d], to.sizes[kBefore + d]));
  return scales;
}

constexpr const char* kPlacesRounded = "its kernels round the places in different ways";

Fate nearest(Context& ctx, const OperatorRecord& op) {
  const View in = ctx.tensor(op, 0), out = ctx.output(op);
  if (in.storage < 0 || !ctx.settings.target.loops(in.dtype) || out.dtype != in.dtype ||
      upsampling_factors(in, out).empty())
    return Fate::external("an unusual input");
  if (overlaps(in, {out})) return Fate::external(kOverlap);
  if (ir::numel(out.sizes) == 0) return Fate::fused();
  const std::vector<Scale> scales = scales_of(op, in, out);
  if (!std::all_of(scales.begin(), scales.end(), [](const Scale& s) { return s.is_agreed(); }))
    return Fate::external(kPlacesRounded);
  if (std::all_of(scales.begin(), scales.end(), [](const Scale& s) { return s.repeats() > 0; }))
    repeat(ctx, in, out, scales);
  else
    gather(ctx, in, out, scales);
  return Fate::fused();
}

/// Copies of one element, each an addition of its own.
constexpr int64_t kMostCopiesAdded = 64;

/// The gradient's elements `term` of each block: [N, C, in …], of which each is `times` apart.
View of_copy(View gradient, const std::vector<Scale>& scales, int64_t term) {
  for (size_t d = scales.size(); d-- > 0;) {
    const int64_t times = scales[d].repeats();
    advance(gradient, kBefore + d, term % times);
    term /= times;
    gradient.sizes[kBefore + d] = scales[d].from;
    gradient.strides[kBefore + d] *= times;
  }
  return gradient;
}

/// The sum over an element's copies, in the order in which ATen's loop meets them.
Fate nearest_backward(Context& ctx, const OperatorRecord& op) {
  const View gradient = ctx.tensor(op, 0), out = ctx.output(op);
  if (gradient.storage < 0 || !is_float(out.dtype) || out.dtype != gradient.dtype ||
      upsampling_factors(out, gradient).empty() || overlaps(gradient, {out}))
    return Fate::external("an unusual gradient");
  if (ir::numel(out.sizes) == 0) return Fate::fused();
  int64_t terms = 1;
  const std::vector<Scale> scales = scales_of(op, out, gradient);
  for (const Scale& scale : scales) {
    if (!scale.is_agreed()) return Fate::external(kPlacesRounded);
    terms *= scale.repeats();
  }
  if (terms == 0 || terms > kMostCopiesAdded)
    return Fate::external("elements that come unequally often");
  StatementBuilder s(out.sizes);
  const ScalarType compute = opmath(out.dtype);
  Value sum = s.constant(0, compute);
  for (int64_t term = 0; term < terms; ++term)
    sum = sum + s.load(of_copy(gradient, scales, term)).to(compute);
  ctx.emit(s.store(out, sum));
  return Fate::fused();
}

}  // namespace

std::vector<Row> resample_rows() {
  const char* backward = "the sum over an element's copies";
  const char* what = "copies of the nearest element";
  return {{"aten::upsample_nearest1d", nearest, what},
          {"aten::upsample_nearest2d", nearest, what},
          {"aten::upsample_nearest3d", nearest, what},
          {"aten::upsample_nearest1d_backward", nearest_backward, backward},
          {"aten::upsample_nearest2d_backward", nearest_backward, backward},
          {"aten::upsample_nearest3d_backward", nearest_backward, backward}};
}

}  // namespace graft::ops
