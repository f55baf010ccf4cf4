// Random programs as regions: some arguments require grad, and gradients are asked for after the
// call, of eager and of the compiled function.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "fuzz/check.h"
#include "fuzz/generate.h"
#include "graft/graft.h"

namespace graft::fuzz {

namespace {

constexpr int kCalls = 5;

/// Are two gradients the same number, but for rounding? Formulas of several steps lose more than
/// one operator does, and a mistake is seldom small.
double slack_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return 1e-8;
    case at::kFloat:
      return 2e-3;
    default:
      return 0.25;
  }
}

/// What a call and its backward gave.
struct Run {
  bool threw = false;
  std::string error;
  Tensors gradients;
};

/// How far a gradient of eager's is from the same in fp64, at most; 0 where it cannot be told.
double error_of(const at::Tensor& eager, const Run& exact, size_t i) {
  if (exact.threw || i >= exact.gradients.size()) return 0;
  const at::Tensor& truth = exact.gradients[i];
  if (!truth.defined() || truth.sizes() != eager.sizes() || eager.numel() == 0) return 0;
  return (eager.to(at::kDouble) - truth).abs().nan_to_num(0, 0, 0).max().item<double>();
}

/// Eager's gradient, with what fp64 gives where eager's type overflowed and another order did not.
at::Tensor without_overflow(const at::Tensor& eager, const at::Tensor& came, const Run& exact,
                            size_t i) {
  if (exact.threw || i >= exact.gradients.size() || !eager.defined()) return eager;
  const at::Tensor& truth = exact.gradients[i];
  if (!truth.defined() || !came.defined() || truth.sizes() != eager.sizes() ||
      came.sizes() != eager.sizes())
    return eager;
  return at::where(eager.isfinite().logical_not() & came.isfinite() & truth.isfinite(),
                   truth.to(eager.scalar_type()), eager);
}

std::string difference(const at::Tensor& eager, const at::Tensor& came, double error = 0) {
  if (eager.defined() != came.defined())
    return std::string("eager has ") + (eager.defined() ? "one" : "none");
  if (!eager.defined()) return {};
  if (eager.sizes() != came.sizes() || eager.scalar_type() != came.scalar_type())
    return "another dtype or other sizes";
  const at::Tensor a = eager.to(at::kDouble).contiguous().view(-1),
                   b = came.to(at::kDouble).contiguous().view(-1);
  const auto *x = a.const_data_ptr<double>(), *y = b.const_data_ptr<double>();
  double most = 0;
  for (int64_t i = 0; i < a.numel(); ++i)
    if (std::isfinite(x[i])) most = std::max(most, std::abs(x[i]));
  const double slack = slack_of(eager.scalar_type()) * std::max(most, 1e-6) + 4 * error;
  for (int64_t i = 0; i < a.numel(); ++i) {
    if (std::isnan(x[i]) && std::isnan(y[i])) continue;
    if (x[i] == y[i] || std::abs(x[i] - y[i]) <= slack) continue;
    return "at " + std::to_string(i) + ": eager " + std::to_string(x[i]) + ", compiled " +
           std::to_string(y[i]);
  }
  return {};
}

/// Runs `f` and its backward; with `exact`, on the same numbers in fp64.
template <class F>
Run run(const F& f, const Program& program, int call, const Tensors& captured, bool exact = false) {
  Random random(program.seed * 31 + 7);
  Memory memory(program, 0, call, captured);
  Tensors arguments, leaves;
  for (size_t i = 0; i < program.sources.size(); ++i) {
    if (program.sources[i].captured) continue;
    at::Tensor x = memory.inputs()[i].clone();
    if (exact && x.is_floating_point()) x = x.to(at::kDouble);
    const bool grad = x.is_floating_point() && random.chance(0.7);
    if (grad) leaves.push_back(x.requires_grad_());
    arguments.push_back(grad ? x * 1 : x);  // so that it may be changed in place
  }
  Run out;
  try {
    at::manual_seed(program.seed + static_cast<uint64_t>(call));
    const Tensors results = f(arguments);
    Tensors outputs, incoming;
    at::manual_seed(program.seed * 3 + static_cast<uint64_t>(call));
    for (const at::Tensor& result : results) {
      if (!result.defined() || !result.requires_grad() || !result.is_floating_point()) continue;
      outputs.push_back(result);
      incoming.push_back(at::randn(result.sizes(), at::kDouble).to(result.scalar_type()));
    }
    if (!outputs.empty() && !leaves.empty())
      out.gradients = torch::autograd::grad(outputs, leaves, incoming, std::nullopt, false, true);
    // sgn's is zeros without memory.
    for (at::Tensor& g : out.gradients)
      if (g.defined() && g._is_zerotensor()) g = at::zeros(g.sizes(), g.options());
  } catch (const std::exception& error) {
    out.threw = true;
    out.error = error.what();
  }
  return out;
}

}  // namespace

Outcome check(const Program& program, bool fast, bool gradients) {
  Outcome out = check(program, fast);
  if (!out.failure.empty() || !gradients || program.guard != Program::Guard::None) return out;
  return check_gradients(program);
}

Outcome check_gradients(const Program& program) {
  Outcome out;
  Tensors eager_captured = make_captured(program), captured = make_captured(program);
  Options options;
  options.async = options.race = false;
  const Function eager = function_of(program, eager_captured);
  const auto compiled = compile(function_of(program, captured), options);
  for (int call = 0; call < kCalls; ++call) {
    Tensors before = copies_of(eager_captured);
    const Run expected = run(eager, program, call, eager_captured),
              came = run(compiled, program, call, captured);
    const Report report = compiled.report();
    out.plan_hits = report.plan_hits;
    out.verdict = std::string(to_string(report.verdict)) + ": " + report.reason;
    out.threw = out.threw || expected.threw;
    auto fail = [&](const std::string& why) {
      out.failure = "gradients, call " + std::to_string(call + 1) + ", " +
                    to_string(report.verdict) + ": " + why;
      return out;
    };
    if (expected.threw != came.threw)
      return fail("eager threw \"" + expected.error + "\", compiled threw \"" + came.error + "\"");
    if (report.verdict == Verdict::Failed) return fail("compilation failed: " + report.reason);
    if (expected.threw) continue;
    std::optional<Run> exact;
    for (size_t i = 0; i < expected.gradients.size(); ++i) {
      const at::Tensor &gradient = expected.gradients[i], &other = came.gradients.at(i);
      if (difference(gradient, other).empty()) continue;
      // Terms that cancel leave the rounding of larger ones, in the order in which they are added.
      if (!exact && !program.random)
        exact = run(function_of(program, before), program, call, before, true);
      const at::Tensor wanted = exact ? without_overflow(gradient, other, *exact, i) : gradient;
      if (const std::string why =
              difference(wanted, other, exact ? error_of(wanted, *exact, i) : 0);
          !why.empty())
        return fail("gradient " + std::to_string(i) + " " + why);
    }
    for (size_t i = 0; i < captured.size(); ++i)
      if (captured[i].defined())
        std::memcpy(captured[i].storage().mutable_data(), eager_captured[i].storage().data(),
                    captured[i].storage().nbytes());
  }
  return out;
}

}  // namespace graft::fuzz
