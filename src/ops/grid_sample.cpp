// Samples of planes at places that a grid names: forward.
#include "ops/grid_sample.h"

#include <array>

#include "ops/fill.h"
#include "ops/reduce.h"
#include "ops/schema.h"

namespace graft::ops {

namespace {

using c10::ScalarType;
using ir::Op;
using ir::StatementBuilder;
using ir::Value;
using ir::View;
using record::OperatorRecord;

/// Channels are written out, each with its four loads; with more than this a kernel is no faster
/// than ATen's call, and longer compiled.
constexpr int64_t kMostChannels = 4;

/// Between 0 and the last element; NaN is 0.
Value clip(Value at, Value last) {
  const Value above = select(gt(at, at.like(0)), at, at.like(0));
  return select(lt(above, last), above, last);
}

/// Mirrored at the borders until it lies between them.
Value reflect(Value at, const Extent& extent) {
  const double low = extent.corners ? 0 : -0.5;
  const double twice = 2 * (extent.corners ? static_cast<double>(extent.size - 1)
                                           : static_cast<double>(extent.size));
  if (twice == 0) return at.like(0);
  const Value from = (extent.corners ? at : at - at.like(low)).op(Op::Abs);
  const Value span = number_of(at, twice);
  const Value flips = (from / span).op(Op::Trunc);
  const Value extra = multiply_add(-flips, span, from, extent.fused);
  const Value inside = ir::min(extra, span - extra);
  return extent.corners ? inside : inside + low;
}

/// Where a number of the grid, -1 to 1 from border to border, lies, in elements.
Value place(Value given, const Extent& extent) {
  const double size = static_cast<double>(extent.size), last = size - 1;
  const Value at = extent.corners ? (given + 1.0) * number_of(given, last / 2)
                                  : multiply_add(given + 1.0, number_of(given, size / 2),
                                                 given.like(-0.5), extent.fused);
  if (extent.padding == Zeros) return at;
  return clip(extent.padding == Border ? at : reflect(at, extent), number_of(at, last));
}

/// The image, its samples and channels at the result's, its rows and columns at computed places.
struct Image {
  StatementBuilder& s;
  const View& view;
  ir::Access access;

  Value at(const Corner& row, const Corner& column) const {
    ir::Access place = access;
    place.indirect.push_back({row.index.id, view.strides[2], view.sizes[2]});
    place.indirect.push_back({column.index.id, view.strides[3], view.sizes[3]});
    const Value value = s.load(std::move(place));
    return select(row.there & column.there, value, value.like(0));
  }
};

Value bilinear(const Image& image, Value x, Value y, const Extent& width, const Extent& height) {
  const Value left = x.op(Op::Floor), above = y.op(Op::Floor);
  const Value to_left = x - left, to_above = y - above;
  const std::array columns{corner(left, 1.0 - to_left, width), corner(left + 1.0, to_left, width)};
  const std::array rows{corner(above, 1.0 - to_above, height),
                        corner(above + 1.0, to_above, height)};
  Value sum = image.at(rows[0], columns[0]) * (rows[0].weight * columns[0].weight);
  auto add = [&](const Corner& row, const Corner& column) {
    sum = multiply_add(image.at(row, column), row.weight * column.weight, sum, width.fused);
  };
  add(rows[0], columns[1]), add(rows[1], columns[0]), add(rows[1], columns[1]);
  return sum;
}

Fate grid_sampler_2d(Context& ctx, const OperatorRecord& op) {
  const View in = ctx.tensor(op, 0), grid = ctx.tensor(op, 1), out = ctx.output(op);
  const int64_t padding = integer(op, "padding_mode", Zeros);
  const bool corners = boolean(op, "align_corners", false);
  if (const char* why = why_not_sampled(op, in, grid, out)) return Fate::external(why);
  if (in.sizes[1] > kMostChannels) return Fate::external("many channels");
  if (ir::numel(out.sizes) == 0) return Fate::fused();
  const bool nearest = integer(op, "interpolation_mode", Bilinear) == Nearest;
  const bool fused = ctx.settings.target.fma;
  const Extent height{in.sizes[2], padding, corners, fused};
  const Extent width{in.sizes[3], padding, corners, fused};
  // A statement for each channel: they share places and weights.
  for (int64_t c = 0; c < out.sizes[1]; ++c) {
    const View channel = graft::narrow(in, 1, c, 1), to = graft::narrow(out, 1, c, 1);
    StatementBuilder s(to.sizes);
    const Value x = place(number_of_grid(s, grid, 0), width),
                y = place(number_of_grid(s, grid, 1), height);
    Image image{s, channel,
                ir::access_of({in.storage, in.dtype, channel.byte_offset, {}, {}}, to.sizes)};
    if (to.sizes[0] > 1) image.access.strides[0] = in.strides[0];
    auto nearest_to = [&](Value at, const Extent& extent) {
      return corner(at.op(Op::RoundEven), at.like(1), extent);
    };
    ctx.emit(s.store(to, nearest ? image.at(nearest_to(y, height), nearest_to(x, width))
                                 : bilinear(image, x, y, width, height)));
  }
  return Fate::fused();
}

}  // namespace

Value number_of(Value like, double value) {
  return like.builder->scalar(value, like.type());
}

Corner corner(Value at, Value weight, const Extent& extent) {
  const Value last = number_of(at, static_cast<double>(extent.size - 1));
  // As 32 bits, of which a vector holds as many as of floats.
  const Value index = clip(at, last).to(ScalarType::Int).to(ScalarType::Long);
  return {ge(at, at.like(0)) & le(at, last), index, weight};
}

Value number_of_grid(StatementBuilder& s, View grid, int64_t which) {
  const std::vector<int64_t>& sizes = s.statement.axes;
  advance(grid, grid.strides.size() - 1, which);
  ir::Access access = ir::access_of({grid.storage, grid.dtype, grid.byte_offset, {}, {}}, sizes);
  for (size_t axis = 0; axis < sizes.size(); ++axis)
    if (axis != 1 && sizes[axis] > 1) access.strides[axis] = grid.strides[axis - (axis > 1)];
  return s.load(std::move(access));
}

const char* why_not_sampled(const OperatorRecord& op, const View& in, const View& grid,
                            const View& out) {
  // Whole numbers of the type, and one more than the last.
  constexpr int64_t kMost = int64_t{1} << 23;
  const int64_t mode = integer(op, "interpolation_mode", Bilinear);
  if (in.storage < 0 || grid.storage < 0 || in.dtype != out.dtype || grid.dtype != in.dtype)
    return "an unusual input";
  if (in.dtype != ScalarType::Float && in.dtype != ScalarType::Double) return "another dtype";
  if (mode != Bilinear && mode != Nearest) return "another interpolation";
  if (overlaps(in, {out}) || overlaps(grid, {out})) return kOverlap;
  for (size_t d = 2; d < in.sizes.size(); ++d)
    if (in.sizes[d] > kMost) return "a side of millions";
  return nullptr;
}

std::vector<Row> grid_sample_rows() {
  return {{"aten::grid_sampler_2d", grid_sampler_2d,
           "weighted means of the neighbours of computed places, or the nearest, of up to four "
           "channels"}};
}

}  // namespace graft::ops
