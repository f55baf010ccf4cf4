// Samples of volumes at places that a grid names: forward. ATen computes them in a plain loop, one
// place after the other.
#include <array>

#include "ops/fill.h"
#include "ops/grid_sample.h"
#include "ops/reduce.h"
#include "ops/schema.h"

namespace graft::ops {

namespace {

using ir::Op;
using ir::StatementBuilder;
using ir::Value;
using ir::View;
using record::OperatorRecord;

/// As std::min(last, std::max(at, 0)): NaN is the last.
Value clip_volume(Value at, Value last) {
  const Value above = select(lt(at, at.like(0)), at.like(0), at);
  return select(lt(above, last), above, last);
}

Value reflect_volume(Value at, const Extent& extent) {
  const double low = extent.corners ? 0 : -0.5;
  const double span =
      extent.corners ? static_cast<double>(extent.size - 1) : static_cast<double>(extent.size);
  if (span == 0) return at.like(0);
  const Value from = (at - at.like(low)).op(Op::Abs), whole = number_of(at, span);
  const Value extra = ir::call(ir::Routine::ScalarFmod, from, whole);
  const Value flips = (from / whole).op(Op::Floor), half = (flips * 0.5).op(Op::Floor);
  return select(gt(flips, half + half), whole - extra + low, extra + low);
}

Value place_in_volume(Value given, const Extent& extent) {
  const auto size = static_cast<double>(extent.size);
  const Value last = number_of(given, size - 1);
  const Value at = extent.corners ? (given + 1.0) / 2.0 * last
                                  : ((given + 1.0) * number_of(given, size) - 1.0) / 2.0;
  if (extent.padding == Zeros) return at;
  return clip_volume(extent.padding == Border ? at : reflect_volume(at, extent), last);
}

Fate grid_sampler_3d(Context& ctx, const OperatorRecord& op) {
  const View in = ctx.tensor(op, 0), grid = ctx.tensor(op, 1), out = ctx.output(op);
  if (const char* why = why_not_sampled(op, in, grid, out)) return Fate::external(why);
  if (ir::numel(out.sizes) == 0) return Fate::fused();
  const bool nearest = integer(op, "interpolation_mode", Bilinear) == Nearest;
  StatementBuilder s(out.sizes);
  std::array<std::vector<Corner>, 3> beside;  // x, y, z
  for (size_t d = 0; d < 3; ++d) {
    const Extent extent{in.sizes[4 - d], integer(op, "padding_mode", Zeros),
                        boolean(op, "align_corners", false)};
    const Value at = place_in_volume(number_of_grid(s, grid, static_cast<int64_t>(d)), extent);
    if (nearest) {
      beside[d] = {corner(at.op(Op::RoundEven), at.like(1), extent)};
    } else {
      const Value before = at.op(Op::Floor), behind = before + 1.0;
      beside[d] = {corner(before, behind - at, extent), corner(behind, at - before, extent)};
    }
  }
  ir::Access access = ir::access_of({in.storage, in.dtype, in.byte_offset, {}, {}}, out.sizes);
  for (size_t d = 0; d < 2; ++d)
    if (out.sizes[d] > 1) access.strides[d] = in.strides[d];
  Value sum = s.constant(0, out.dtype);
  for (const Corner& z : beside[2])
    for (const Corner& y : beside[1])
      for (const Corner& x : beside[0]) {
        ir::Access at = access;
        at.indirect = {{z.index.id, in.strides[2], in.sizes[2]},
                       {y.index.id, in.strides[3], in.sizes[3]},
                       {x.index.id, in.strides[4], in.sizes[4]}};
        const Value value = s.load(std::move(at));
        const Value there = z.there & y.there & x.there;
        sum = nearest ? select(there, value, sum)
                      : select(there, sum + value * (x.weight * y.weight * z.weight), sum);
      }
  ctx.emit(s.store(out, sum));
  return Fate::fused();
}

}  // namespace

std::vector<Row> grid_sample_volume_rows() {
  return {{"aten::grid_sampler_3d", grid_sampler_3d, "likewise in volumes, of any number"}};
}

}  // namespace graft::ops
