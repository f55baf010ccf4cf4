// Is a difference explained by rounding? Eager runs again with every inexact step's results moved
// by a few units; what the program makes of such changes is what a difference may be.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "fuzz/check.h"
#include "tensor/dtype.h"

namespace graft::fuzz {

namespace {

constexpr int kRuns = 24;

double largest_of(const at::Tensor& t) {
  return t.to(at::kDouble).nan_to_num(0, 0, 0).abs().max().item<double>();
}

/// A tensor that a step takes.
struct Taken {
  int64_t numel;
  double largest;
};
std::vector<Taken> taken_by(const Step& step, const Tensors& values) {
  std::vector<Taken> all;
  for (const Operand& operand : step.operands)
    for (int number : operand.values) {
      const at::Tensor t = number < 0 ? at::Tensor() : values[static_cast<size_t>(number)];
      if (t.defined() && at::isFloatingType(t.scalar_type()) && t.numel() > 0)
        all.push_back({t.numel(), largest_of(t)});
    }
  return all;
}

/// Moves each value by up to four units in its last place, and by a unit of the largest one, or of
/// the largest of those that it sums, for what cancels in a sum.
void disturb(at::Tensor& t, const std::vector<Taken>& taken, Random& random) {
  if (!t.defined() || !at::isFloatingType(t.scalar_type()) || t.numel() == 0) return;
  at::Tensor wide = t.to(at::kDouble).contiguous().clone();
  double sums = t.numel() > 1 ? largest_of(wide) : 0, eps = epsilon(t.scalar_type());
  for (const Taken& from : taken)
    if (from.numel > t.numel()) sums = std::max(sums, from.largest);
  double* data = wide.mutable_data_ptr<double>();
  // What is left of a sum that is zero may be zero: whoever divides by it gets an infinity.
  const bool snap = random.chance(0.3);
  for (int64_t i = 0; i < wide.numel(); ++i)
    if (snap && std::abs(data[i]) <= 8 * eps * sums)
      data[i] = 0;
    else
      data[i] += random.uniform(-1, 1) * eps * (4 * std::abs(data[i]) + sums);
  t.copy_(wide);
}

/// Between subnormal numbers.
double least_step_of(at::ScalarType type) {
  switch (type) {
    case at::kHalf:
      return 0x1p-24;
    case at::kBFloat16:
      return 0x1p-133;
    case at::kFloat:
      return 0x1p-149;
    default:
      return 0x1p-1074;
  }
}

struct Spread {
  at::Tensor low, high;  ///< Double
  at::Tensor unsteady;   ///< Bool: NaN, infinite or another integer in some runs
};

/// May the square of a value, or a sum of squares, be too large for the type that eager computes
/// in? Then eager gives up digits, or all of them, that another order keeps.
bool may_overflow(const at::Tensor& t) {
  if (!t.defined() || !at::isFloatingType(t.scalar_type()) || t.numel() == 0) return false;
  double limit = t.scalar_type() == at::kDouble ? 1e150 : 1e17;
  return (t.abs().gt(limit) & t.isfinite()).any().item<bool>();
}

/// Infinities that meet in a sum give NaN or an infinity, by their order.
bool has_infinities(const at::Tensor& t) {
  return t.defined() && at::isFloatingType(t.scalar_type()) &&
         t.isfinite().logical_not().any().item<bool>();
}

/// Does the step give a part of its operand's memory? Such a step computes nothing.
bool is_view(const Step& step) {
  const auto& returns = step.op.schema().returns();
  return std::any_of(returns.begin(), returns.end(), [](const c10::Argument& result) {
    return result.alias_info() != nullptr && !result.alias_info()->isWrite();
  });
}

at::Tensor as_double(const at::Tensor& t) {
  return t.to(at::kDouble).contiguous();
}

}  // namespace

std::string explained_by_rounding(const Program& program, int placement, int call,
                                  const Tensors& captured, const Tensors& eager,
                                  const Tensors& came, bool fast) {
  at::NoGradGuard no_grad;
  std::vector<Spread> spreads;
  for (const at::Tensor& t : eager) {
    if (!t.defined() || t.numel() == 0) {
      spreads.emplace_back();
      continue;
    }
    at::Tensor wide = as_double(t);
    spreads.push_back({wide.clone(), wide.clone(), at::zeros(wide.sizes(), at::kBool)});
  }
  bool overflows = false;
  for (int run = 0; run < kRuns; ++run) {
    Random random(program.seed * 131 + static_cast<uint64_t>(run));
    Tensors held = copies_of(captured);
    Memory memory(program, placement, call, held);
    at::manual_seed(program.seed + static_cast<uint64_t>(call));
    Tensors inputs = memory.inputs();
    for (const at::Tensor& t : inputs) overflows |= run == 0 && may_overflow(t);
    std::vector<Taken> taken;
    auto after = [&](const Step& step, Tensors& results) {
      bool inexact = step.inexact || (fast && !is_view(step));
      for (const at::Tensor& t : results)
        overflows |= run == 0 && (may_overflow(t) || (inexact && has_infinities(t)));
      if (inexact)
        for (at::Tensor& t : results) disturb(t, taken, random);
    };
    Tensors now = execute(program, inputs, after, [&](const Step& step, const Tensors& values) {
      taken = taken_by(step, values);
    });
    // In the order in which the caller lists what it compares: results, memory, captured inputs.
    for (const at::Tensor& base : memory.bases())
      if (base.defined()) now.push_back(base);
    for (size_t i = 0; i < held.size(); ++i)
      if (program.sources[i].captured) now.push_back(held[i]);
    for (size_t i = 0; i < now.size() && i < spreads.size(); ++i) {
      if (!spreads[i].low.defined()) continue;
      at::Tensor wide = as_double(now[i]), first = as_double(eager[i]);
      spreads[i].unsteady |= wide.isfinite().logical_not() | first.isfinite().logical_not();
      spreads[i].low = at::minimum(spreads[i].low, wide.nan_to_num(0, 0, 0));
      spreads[i].high = at::maximum(spreads[i].high, wide.nan_to_num(0, 0, 0));
    }
  }
  for (size_t i = 0; i < spreads.size(); ++i) {
    if (!spreads[i].low.defined()) continue;
    if (overflows) continue;  // comparisons of what is lost there included
    at::Tensor a = as_double(eager[i]), b = as_double(came[i]);
    at::Tensor width = (spreads[i].high - spreads[i].low) * 4 +
                       a.abs() * (8 * epsilon(eager[i].scalar_type())) +
                       4 * least_step_of(eager[i].scalar_type());
    at::Tensor bad = ((b - a).abs() > width) & spreads[i].unsteady.logical_not();
    bad |= b.isfinite().logical_not() & a.isfinite() & spreads[i].unsteady.logical_not();
    if (!bad.any().item<bool>()) continue;
    int64_t at = bad.flatten().to(at::kInt).argmax().item<int64_t>();
    return "tensor " + std::to_string(i) + " at " + test::index_text(at, a.sizes()) + ": eager " +
           test::number_text(a.flatten()[at].item<double>()) + ", compiled " +
           test::number_text(b.flatten()[at].item<double>()) + ", rounding moves it by " +
           test::number_text((spreads[i].high - spreads[i].low).flatten()[at].item<double>());
  }
  return {};
}

}  // namespace graft::fuzz
