// Conditions: what the function's own code branches on, or takes as a number. A plan follows the
// way that the recorded run took, as long as they come out as they did then.
#include "ops/condition.h"

#include <functional>
#include <string>

#include "ops/schema.h"

namespace graft::ops {

namespace {

using c10::ScalarType;
using ir::StatementBuilder;
using ir::Value;
using ir::View;
using record::OperatorRecord;

constexpr const char* kOtherDtype = "numbers that loops do not compare";

/// Ends runs in which `other(builder)`, a Bool over `axes`, holds anywhere.
Fate demand(Context& ctx, const std::vector<int64_t>& axes,
            const std::function<Value(StatementBuilder&)>& other) {
  if (!ctx.check(axes, other, /*puts_back=*/true))
    return Fate::broken("is read after other processes heard from this one");
  ctx.gives_up =
      "a tensor that the function's code reads (" + ctx.name() +
      ") has another value than when it was recorded; a number that tensors are computed "
      "with can stay a tensor (loss / mask.sum())";
  return Fate::checked();
}

/// The only element of a tensor with one.
View element(View tensor) {
  tensor.sizes.clear(), tensor.strides.clear();
  return tensor;
}

Fate equal(Context& ctx, const OperatorRecord& op) {
  const View &a = ctx.tensor(op, 0), &b = ctx.tensor(op, 1);
  const bool were_equal = op.outputs[0].constant.toBool();
  if (a.sizes != b.sizes || ir::numel(a.sizes) == 0) {  // as at every call of this layout
    if (ctx.settings.any_size)
      return Fate::broken("compares tensors of other sizes, or empty ones");
    return Fate::checked();
  }
  if (a.storage < 0 || b.storage < 0 || a.dtype != b.dtype) return Fate::broken(kOtherDtype);
  const auto differ = [&](StatementBuilder& s) { return ~ir::eq(s.load(a), s.load(b)); };
  if (were_equal) return demand(ctx, a.sizes, differ);
  const View any = ctx.temporary({}, ScalarType::Bool);
  StatementBuilder s(a.sizes);
  const std::vector<bool> all(a.sizes.size(), true);
  ctx.emit(s.store(any, a.sizes.empty()
                            ? differ(s)
                            : s.reduce(ir::ReduceOp::Or, differ(s), all, ScalarType::Bool)));
  return demand(ctx, {}, [&](StatementBuilder& t) { return ~t.load(any); });
}

Fate is_nonzero(Context& ctx, const OperatorRecord& op) {
  const View x = element(ctx.tensor(op, 0));
  const bool was = op.outputs[0].constant.toBool();
  if (x.storage < 0) return Fate::broken(kOtherDtype);
  return demand(ctx, {}, [&](StatementBuilder& s) {
    const Value zero =
        x.dtype == ScalarType::Bool ? ~s.load(x) : ir::eq(s.load(x), s.integer(0, x.dtype));
    return was ? zero : ~zero;
  });
}

Fate item(Context& ctx, const OperatorRecord& op) {
  const View x = element(ctx.tensor(op, 0));
  const c10::Scalar was = op.outputs[0].constant.toScalar();
  if (x.storage < 0) return Fate::broken(kOtherDtype);
  return demand(ctx, {}, [&](StatementBuilder& s) {
    if (x.dtype == ScalarType::Bool) return was.toBool() ? ~s.load(x) : s.load(x);
    return ir::ne(s.load(x).to(ScalarType::Long), s.scalar(was.toLong(), ScalarType::Long));
  });
}

}  // namespace

std::vector<Row> condition_rows() {
  return {{"aten::equal", equal, "the plan is for the outcome that was recorded"},
          {"aten::is_nonzero", is_nonzero, "likewise"},
          {"aten::_local_scalar_dense", item,
           "`item()` of a Bool or integer tensor: the plan is for the number that was recorded"}};
}

}  // namespace graft::ops
