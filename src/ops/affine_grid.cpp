// Grids of places that an affine map makes of a regular grid, for grid_sampler.
#include "ops/fill.h"
#include "ops/products.h"
#include "ops/reduce.h"
#include "ops/schema.h"

namespace graft::ops {

namespace {

using c10::ScalarType;
using ir::StatementBuilder;
using ir::Value;
using ir::View;
using record::OperatorRecord;

/// Of places along axis `d`: their middles or, with `corners`, from border to border of [-1, 1].
Value regular(const Context& ctx, StatementBuilder& s, size_t d, int64_t steps, bool corners,
              ScalarType dtype) {
  if (steps <= 1) return s.constant(0, dtype);
  const Value at = linspace_value(ctx, s, s.axis(d), steps, -1, 1, dtype);
  if (corners) return at;
  return at * at.like(static_cast<double>(steps - 1)) / at.like(static_cast<double>(steps));
}

/// out[n, …, i] = sum over k of (x, y, [z,] 1)[k] * theta[n, i, k]; a bmm, of few terms.
Fate affine_grid(Context& ctx, const OperatorRecord& op) {
  const View theta = ctx.tensor(op, 0), out = ctx.output(op);
  const bool corners = boolean(op, "align_corners", false);
  if (theta.storage < 0 || theta.dtype != out.dtype) return Fate::external("an unusual input");
  if (out.dtype != ScalarType::Float && out.dtype != ScalarType::Double)
    return Fate::external("another dtype");
  const size_t rank = out.sizes.size(), places = rank - 2;  // [N, (D,) H, W, places]
  if (places < 2 || places > 3 || theta.sizes.size() != 3) return Fate::external("an unusual form");
  if (overlaps(theta, {out})) return Fate::external(kOverlap);
  if (ir::numel(out.sizes) == 0) return Fate::fused();
  const int64_t terms = static_cast<int64_t>(places) + 1;
  const bool plain = bmm_adds_in_order(ctx, ir::numel(out.sizes) / out.sizes[0] * terms, out.dtype);
  if (!plain && !ctx.settings.any_products)
    return Fate::external("a matmul, whose bits are to be eager's");
  StatementBuilder s(out.sizes);
  std::vector<std::pair<Value, Value>> factors;
  for (int64_t k = 0; k < terms; ++k) {
    View row = theta;
    advance(row, 2, k);
    row.sizes = out.sizes, row.strides.assign(rank, 0);
    row.strides.front() = theta.strides[0], row.strides.back() = theta.strides[1];
    const size_t d = places - static_cast<size_t>(k);  // x runs along the last axis of places
    const Value place = k + 1 == terms ? s.constant(1, out.dtype)
                                       : regular(ctx, s, d, out.sizes[d], corners, out.dtype);
    factors.emplace_back(place, s.load(row));
  }
  if (!plain) ctx.approximate(out.dtype, terms);
  const ir::TermOrder order =
      plain ? ir::TermOrder{}
            : order_of(ctx, {.dtype = out.dtype,
                             .batched = true,
                             .rows = ir::numel(out.sizes) / out.sizes[0] / out.sizes.back(),
                             .terms = terms,
                             .columns = out.sizes.back(),
                             .right_turned = true});
  ctx.emit(s.store(out, sum_of_products(s, factors, plain, order)));
  return Fate::fused();
}

}  // namespace

std::vector<Row> affine_grid_rows() {
  return {{"aten::affine_grid_generator", affine_grid,
           "a regular grid's places, and products of few terms with the maps"}};
}

}  // namespace graft::ops
