// The backward of batch norm, with the statistics of the batch or with given ones.
#include <utility>

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

constexpr ScalarType kSums = ScalarType::Double;

/// Per channel of n elements, d = x - mean: dbias = sum(dy), dweight = sum(d dy) * rstd, and
/// dx = (dy - sum(dy) / n - d * sum(d dy) * rstd² / n) * rstd * weight with the batch's statistics,
/// dx = dy * rstd * weight with given ones.
class BatchBackward {
 public:
  BatchBackward(Context& ctx, const OperatorRecord& op)
      : ctx_(ctx),
        trains_(boolean(op, "train", false)),
        eps_(number(op, "eps").value_or(0).toDouble()),
        dy_(ctx.tensor(op, 0)),
        x_(ctx.tensor(op, 1)),
        weight_(optional_tensor(ctx, op, "weight")),
        mean_(optional_tensor(ctx, op, trains_ ? "save_mean" : "running_mean")),
        spread_(optional_tensor(ctx, op, trains_ ? "save_invstd" : "running_var")),
        dx_(ctx.output(op, 0)),
        dweight_(ctx.output(op, 1)),
        dbias_(ctx.output(op, 2)) {}

  Fate lower() {
    if (dy_.storage < 0 || x_.storage < 0 || !is_float(x_.dtype) || dy_.sizes != x_.sizes ||
        x_.sizes.size() < 2 || dy_.dtype != x_.dtype)
      return Fate::external("an unusual input");
    for (const View* v : {&mean_, &spread_})
      if (v->storage < 0 || v->sizes != channels())
        return Fate::external("statistics that are missing");
    for (const View* v : {&dy_, &x_, &weight_, &mean_, &spread_})
      for (const View* out : {&dx_, &dweight_, &dbias_})
        if (v->storage >= 0 && out->storage >= 0 && overlaps(*v, {*out}))
          return Fate::external(kOverlap);
    if (ir::numel(x_.sizes) == 0) return Fate::external("there are no elements");
    ctx_.approximate(x_.dtype);
    const View root = root_of();
    const bool input = dx_.storage >= 0, sums = trains_ && input;
    View plain, along;
    if (sums || dbias_.storage >= 0) plain = sum([&](StatementBuilder& s) { return dy(s); });
    if (sums || dweight_.storage >= 0)
      along = sum([&](StatementBuilder& s) { return distance(s, kSums) * dy(s).to(kSums); });
    if (input) trains_ ? of_batch(plain, along, root) : of_given(root);
    if (dbias_.storage >= 0) ctx_.copy(plain, dbias_);
    if (dweight_.storage >= 0)
      per_channel(dweight_,
                  [&](StatementBuilder& s) { return s.load(along) * s.load(root).to(kSums); });
    return Fate::fused();
  }

 private:
  ScalarType compute() const { return opmath(x_.dtype); }
  std::vector<int64_t> channels() const { return {x_.sizes[1]}; }
  int64_t count() const { return ir::numel(x_.sizes) / x_.sizes[1]; }
  /// One element per channel, beside x.
  View beside(View view) const {
    view.sizes.resize(x_.sizes.size() - 1, 1);
    view.strides.resize(x_.sizes.size() - 1, 0);
    return view;
  }
  Value dy(StatementBuilder& s) const { return s.load(dy_).to(compute()); }
  Value channel(StatementBuilder& s, const View& view) const {
    return s.load(beside(view)).to(compute());
  }
  Value distance(StatementBuilder& s, ScalarType type) const {
    return s.load(x_).to(type) - s.load(beside(mean_)).to(type);
  }
  Value weighted(StatementBuilder& s, Value gradient, const View& root) const {
    const Value scaled = gradient * channel(s, root);
    return weight_.storage < 0 ? scaled : scaled * channel(s, weight_);
  }

  template <class Formula>
  void per_channel(const View& to, Formula formula) {
    StatementBuilder s(channels());
    ctx_.emit(s.store(to, formula(s)));
  }
  template <class Term>
  View sum(Term term) {
    const View made = ctx_.temporary(channels(), kSums);
    View to = beside(made);
    to.sizes.insert(to.sizes.begin(), 1);
    to.strides.insert(to.strides.begin(), 0);
    std::vector<bool> axes(x_.sizes.size(), true);
    axes[1] = false;
    StatementBuilder s(x_.sizes);
    ctx_.emit(s.store(to, s.reduce(ir::ReduceOp::Sum, term(s).to(kSums), axes, kSums)));
    return made;
  }

  /// 1 / sqrt(var + eps), one per channel.
  View root_of() {
    if (trains_) return spread_;
    const View root = ctx_.temporary(channels(), compute());
    per_channel(root, [&](StatementBuilder& s) {
      const Value variance = s.load(spread_).to(compute()).to(kSums);
      return 1.0 / (variance + s.scalar(eps_, kSums)).op(Op::Sqrt);
    });
    return root;
  }

  void of_batch(const View& plain, const View& along, const View& root) {
    const View shift = ctx_.temporary(channels(), compute()),
               tilt = ctx_.temporary(channels(), compute());
    per_channel(shift,
                [&](StatementBuilder& s) { return s.load(plain) / s.scalar(count(), kSums); });
    per_channel(tilt, [&](StatementBuilder& s) {
      const Value r = s.load(root).to(kSums);
      return s.load(along) * r * r / s.scalar(count(), kSums);
    });
    StatementBuilder s(x_.sizes);
    const Value left = fma(-distance(s, compute()), channel(s, tilt), dy(s) - channel(s, shift));
    ctx_.emit(s.store(dx_, weighted(s, left, root)));
  }
  void of_given(const View& root) {
    StatementBuilder s(x_.sizes);
    ctx_.emit(s.store(dx_, weighted(s, dy(s), root)));
  }

  Context& ctx_;
  const bool trains_;
  const double eps_;
  View dy_, x_, weight_, mean_, spread_;  ///< spread: 1 / sqrt(var + eps), or the given variance
  View dx_, dweight_, dbias_;
};

Fate batch_norm_backward(Context& ctx, const OperatorRecord& op) {
  if (is_constant(ctx, op, "weight")) return Fate::external("a weight without memory");
  return BatchBackward(ctx, op).lower();
}

}  // namespace

std::vector<Row> batch_backward_rows() {
  return {{"aten::native_batch_norm_backward", batch_norm_backward,
           "gradients of batch norm's input, weight and bias"}};
}

}  // namespace graft::ops
