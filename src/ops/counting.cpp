// Counts of what a tensor holds: bincount and histc.
#include <cmath>
#include <string>

#include "ops/indexing.h"
#include "ops/reduce.h"
#include "ops/schema.h"

namespace graft::ops {

namespace {

using c10::ScalarType;
using ir::Access;
using ir::StatementBuilder;
using ir::Value;
using ir::View;
using record::OperatorRecord;

/// out[place] = out[place] + term at each point of the statement, in order.
void add_up(Context& ctx, StatementBuilder& s, const View& out, Value place, Value term) {
  Access at = ir::access_of({out.storage, out.dtype, out.byte_offset, {}, {}}, s.statement.axes);
  at.indirect = {{place.id, out.strides[0], out.sizes[0]}};
  const Value held = s.load(at);
  ctx.emit_in_order(s.store(std::move(at), held + term));
}

constexpr const char* kOtherCount =
    "bincount's largest number is another than when it was recorded, or one is negative";

/// As many counts as when it was recorded: `minlength`, or as the largest number said then, which
/// must be there again.
Fate bincount(Context& ctx, const OperatorRecord& op) {
  const View &x = ctx.tensor(op, 0), &weights = ctx.tensor(op, 1), &out = ctx.output(op);
  if (x.storage < 0 || x.sizes.size() != 1 || ir::numel(x.sizes) == 0 ||
      !ctx.settings.target.loops(x.dtype))
    return Fate::external("nothing to count");
  const int64_t count = out.sizes[0];
  const bool by_data = count > integer(op, "minlength", 0);
  if (by_data) ctx.gives_up = kOtherCount;  // as loops or by a call
  const bool weighs = op.inputs[1].kind == record::Operand::Kind::Tensor && weights.storage >= 0;
  if (weighs && weights.dtype != ScalarType::Float && weights.dtype != ScalarType::Double)
    return Fate::external("weights that are converted first");
  if (by_data && (ctx.settings.any_size || !(ctx.can_check() || op.never_called)))
    return Fate::external("as many counts as the data says");
  if (by_data) {
    const View largest = ctx.temporary({}, ScalarType::Long);
    StatementBuilder s(x.sizes);
    ctx.emit(s.store(largest, s.reduce(ir::ReduceOp::Max, s.load(x).to(ScalarType::Long), {true},
                                       ScalarType::Long)));
    const bool can = ctx.check(
        {},
        [&](StatementBuilder& c) {
          return ne(c.load(largest), c.integer(count - 1, ScalarType::Long));
        },
        op.never_called);
    if (!can) return Fate::external(kTooLate);
  }
  const bool can = ctx.check(
      x.sizes,
      [&](StatementBuilder& s) {
        const Value number = s.load(x).to(ScalarType::Long);
        return lt(number, number.like(0)) | ge(number, s.scalar(count, ScalarType::Long));
      },
      op.never_called);
  if (!can) return Fate::external(kTooLate);
  ctx.gives_up = kOtherCount;  // at a negative number, too
  ctx.fill(out, 0);
  StatementBuilder s(x.sizes);
  const Value place = s.load(x).to(ScalarType::Long);
  add_up(ctx, s, out, place,
         weighs ? s.load(weights).to(out.dtype) : s.constant(1, ScalarType::Long));
  return Fate::fused();
}

/// Of bins of one width between bounds that are given. Numbers beyond them, and NaN, do not count.
Fate histc(Context& ctx, const OperatorRecord& op) {
  constexpr int64_t kExact = 1 << 24;  // of counts in Float; eager's threads add up to that each
  const View &given = ctx.tensor(op, 0), &out = ctx.output(op);
  if (given.storage < 0 || (given.dtype != ScalarType::Float && given.dtype != ScalarType::Double))
    return Fate::external("numbers that are widened");
  if (ir::numel(given.sizes) == 0 || ir::numel(given.sizes) > kExact || ctx.settings.any_size)
    return Fate::external("none to count, or too many");
  const auto low = number(op, "min"), high = number(op, "max");
  if (!low || !high || low->isComplex() || high->isComplex())
    return Fate::external("bounds that change");
  auto rounded = [&](double x) {
    return given.dtype == ScalarType::Float ? static_cast<double>(static_cast<float>(x)) : x;
  };
  const double first = rounded(low->toDouble()), last = rounded(high->toDouble());
  // (What a number's bin is computed by is finite then, too.)
  if (!(first < last) ||
      !std::isfinite(rounded(rounded(last - first) * static_cast<double>(out.sizes[0]))))
    return Fate::external("bounds that the data gives");
  if (overlaps(given, {out})) return Fate::external(kOverlap);
  View x = given;  // as a list: steps go along one axis
  if (x.strides != ir::contiguous_strides(x.sizes)) {
    x = ctx.temporary(given.sizes, given.dtype);
    ctx.copy(given, x);
  }
  x.sizes = {ir::numel(x.sizes)}, x.strides = {1};
  // The bins first, a vector at a time; what does not count comes behind the last one.
  const int64_t count = out.sizes[0];
  const View bins = ctx.temporary(x.sizes, ScalarType::Long),
             table = ctx.temporary({count + 1}, ScalarType::Long);
  {
    StatementBuilder s(x.sizes);
    const Value value = s.load(x), lowest = s.scalar(first, x.dtype),
                highest = s.scalar(last, x.dtype);
    const Value counts = ge(value, lowest) & le(value, highest);
    const Value place =
        (value - lowest) * s.scalar(static_cast<double>(count), x.dtype) / (highest - lowest);
    const Value most = s.scalar(count - 1, ScalarType::Long);
    ctx.emit(s.store(bins, select(counts, min(place.to(ScalarType::Long), most),
                                  s.scalar(count, ScalarType::Long))));
  }
  ctx.fill(table, 0);
  StatementBuilder s(x.sizes);
  add_up(ctx, s, table, s.load(bins), s.constant(1, ScalarType::Long));
  ctx.copy(graft::narrow(table, 0, 0, count), out);
  return Fate::fused();
}

}  // namespace

std::vector<Row> counting_rows() {
  return {{"aten::bincount", bincount, "how often each number is there, or its weights' sum"},
          {"aten::histc", histc, "how many numbers lie in each of equal parts of a range"}};
}

}  // namespace graft::ops
