// Searches in sorted boundaries: eager's own bisection, so that boundaries which are not sorted
// give its results too.
#include <bit>
#include <string>

#include "ops/indexing.h"
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

/// Values that are looked up, and the boundaries that lie along the last dimension of `sorted`; the
/// dimensions before it, if any, are the values' own.
struct Search {
  View sorted, values, out;
  bool right = false;  ///< the first boundary above the value, not the first that is not below it
};

/// Each step halves [start, end). Halves differ by one element at most, so that only the last step
/// may find nothing left, and it then leaves both as they are; where there are 2^k - 1 boundaries,
/// halves are equal, and even that is known.
Value bisect(StatementBuilder& s, const Search& search) {
  const int64_t count = search.sorted.sizes.back();
  ir::Access row =
      ir::access_of({search.sorted.storage, search.sorted.dtype, search.sorted.byte_offset, {}, {}},
                    search.values.sizes);
  for (size_t a = 0; a + 1 < search.sorted.sizes.size(); ++a)
    if (search.values.sizes[a] > 1) row.strides[a] = search.sorted.strides[a];
  const ScalarType compute = opmath(search.values.dtype);
  const bool equal_halves = std::has_single_bit(static_cast<uint64_t>(count) + 1);
  // Sizes that change are numbers of the kernel's; those of equal halves do not.
  auto number = [&](int64_t n) {
    return equal_halves ? s.integer(n, ScalarType::Long) : s.scalar(n, ScalarType::Long);
  };
  const Value value = s.load(search.values).to(compute), one = s.integer(1, ScalarType::Long),
              last = number(count - 1);
  Value start = s.integer(0, ScalarType::Long), end = number(count);
  for (int64_t left = count; left > 0; left /= 2) {
    const Value middle =
        equal_halves ? start + number(left / 2) : start + (end - start).op(Op::Shr, one);
    ir::Access place = row;
    place.indirect = {
        {equal_halves ? middle.id : ir::min(middle, last).id, search.sorted.strides.back(), count}};
    const Value boundary = s.load(std::move(place)).to(compute);
    const Value reached = search.right ? ir::gt(boundary, value) : ir::ge(boundary, value);
    Value above = ~reached, below = reached;
    if (left == 1 && !equal_halves) {
      const Value open = ir::lt(start, end);
      above = open & above, below = open & below;
    }
    start = ir::select(above, middle + one, start);
    end = ir::select(below, middle, end);
  }
  // Known already, but not to who asks for the range of what is stored.
  return ir::min(ir::max(start, s.integer(0, ScalarType::Long)), number(count));
}

Fate look_up(Context& ctx, const Search& search) {
  const View &sorted = search.sorted, &values = search.values;
  if (sorted.storage < 0 || values.storage < 0) return Fate::external("a number, not a tensor");
  if (sorted.dtype != values.dtype || !ctx.settings.target.loops(values.dtype) ||
      values.dtype == ScalarType::Bool)
    return Fate::external("boundaries of another dtype");
  const size_t rank = sorted.sizes.size();
  const bool own_rows = rank > 1;
  if (rank == 0 || sorted.sizes.back() == 0 || (own_rows && rank != values.sizes.size()))
    return Fate::external("no boundaries");
  for (size_t a = 0; own_rows && a + 1 < rank; ++a)
    if (sorted.sizes[a] != values.sizes[a]) return Fate::external("rows of another shape");
  if (search.out.sizes != values.sizes || overlaps(sorted, {search.out}) ||
      overlaps(values, {search.out}))
    return Fate::external(kOverlap);
  if (ir::numel(values.sizes) == 0) return Fate::fused();
  StatementBuilder s(values.sizes);
  ctx.emit(s.store(search.out, bisect(s, search)));
  return Fate::fused();
}

Fate bucketize(Context& ctx, const OperatorRecord& op) {
  const bool right = boolean(op, "right", false);
  if (ctx.tensor(op, 1).sizes.size() != 1) return Fate::external("boundaries that are no list");
  return look_up(ctx, {ctx.tensor(op, 1), ctx.tensor(op, 0), ctx.output(op), right});
}

Fate search_sorted(Context& ctx, const OperatorRecord& op) {
  const int sorter = argument_index(op, "sorter");
  if (sorter >= 0 && ctx.tensor(op, static_cast<size_t>(sorter)).storage >= 0)
    return Fate::external("a sorter");
  const std::string side = text(op, "side", {});
  const bool right = side.empty() ? boolean(op, "right", false) : side == "right";
  return look_up(ctx, {ctx.tensor(op, 0), ctx.tensor(op, 1), ctx.output(op), right});
}

}  // namespace

std::vector<Row> search_rows() {
  return {{"aten::bucketize", bucketize, "the bucket of each value, by bisection"},
          {"aten::searchsorted", search_sorted, "the place of each value, by bisection"}};
}

}  // namespace graft::ops
