// Patches of images as columns (im2col, which unfold of torch's functions calls): element (c, i, j)
// of column (y, x) is that of channel c at (y, x) steps and (i, j) taps, or zero in the padding.
#include <array>

#include "ops/fill.h"
#include "ops/reduce.h"
#include "ops/schema.h"
#include "ops/windows.h"

namespace graft::ops {

namespace {

using ir::View;
using record::OperatorRecord;

Fate im2col(Context& ctx, const OperatorRecord& op) {
  View in = ctx.tensor(op, 0), out = ctx.output(op);
  if (in.storage < 0 || (in.sizes.size() != 3 && in.sizes.size() != 4))
    return Fate::external("unusual patches");
  if (in.dtype != out.dtype) return Fate::external("a result of another dtype");
  if (overlaps(in, {out})) return Fate::external(kOverlap);
  if (ir::numel(out.sizes) == 0) return Fate::fused();
  in = with_rank(in, 4 - in.sizes.size());
  out = with_rank(out, 3 - out.sizes.size());
  std::vector<Windows> windows = read_windows(op, in, in, 2);
  std::vector<int64_t> sizes = in.sizes, padding;
  for (size_t k = 0; k < 2; ++k) {
    Windows& w = windows[k];
    padding.push_back(w.padding), sizes[2 + k] += 2 * w.padding;
    w.out = (sizes[2 + k] - w.apart * (w.size - 1) - 1) / w.step + 1;
  }
  if (sizes != in.sizes) in = with_border(ctx, in, sizes, padding, 0);
  // Axes: batch, channel, taps, places.
  const Windows &y = windows[0], &x = windows[1];
  const auto [n, c, h, w] = std::array{in.strides[0], in.strides[1], in.strides[2], in.strides[3]};
  const int64_t row = out.strides[1], place = out.strides[2];
  View columns = out;
  columns.sizes = {in.sizes[0], in.sizes[1], y.size, x.size, y.out, x.out};
  columns.strides = {out.strides[0], row * y.size * x.size, row * x.size, row, place * x.out,
                     place};
  in.sizes = columns.sizes;
  in.strides = {n, c, h * y.apart, w * x.apart, h * y.step, w * x.step};
  ctx.copy(in, columns);
  return Fate::fused();
}

}  // namespace

std::vector<Row> patch_rows() {
  return {{"aten::im2col", im2col, "patches of images as columns"}};
}

}  // namespace graft::ops
