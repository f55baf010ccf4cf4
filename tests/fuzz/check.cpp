#include "fuzz/check.h"

#include <ATen/ATen.h>

#include <typeinfo>

#include "codegen/backend.h"
#include "graft/graft.h"
#include "ops/lower.h"
#include "record/trace.h"
#include "runtime/function/compile.h"
#include "runtime/proof/compare.h"

namespace graft::fuzz {

namespace {

struct Guards {
  explicit Guards(const Program& program) {
    if (program.guard == Program::Guard::NoGrad) no_grad.emplace();
    if (program.guard == Program::Guard::Inference) inference.emplace();
  }
  std::optional<at::NoGradGuard> no_grad;
  std::optional<c10::InferenceMode> inference;
};

Tensors arguments_of(const Program& program, const Tensors& inputs) {
  Tensors out;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!program.sources[i].captured) out.push_back(inputs[i]);
  return out;
}

struct Attempt {
  Tensors results;
  std::string error;
};

template <class Call>
Attempt attempt(Call call) {
  Attempt result;
  try {
    result.results = call();
  } catch (const c10::Error& error) {
    result.error = std::string(typeid(error).name()) + ": " + error.what_without_backtrace();
  } catch (const std::exception& error) {
    result.error = std::string(typeid(error).name()) + ": " + error.what();
  }
  return result;
}

/// One side: its memory, its captured tensors, its function.
struct Side {
  Tensors captured;
  Function f;
};

/// Where a tensor starts, counted in the other tensors' storages: equal on both sides when they
/// alias alike.
std::string alias_text(const Tensors& results, const Tensors& inputs) {
  std::string text;
  auto relate = [&](const at::Tensor& a, const at::Tensor& b) {
    // A tensor without elements has no address.
    if (!a.defined() || !b.defined() || a.numel() == 0 || b.numel() == 0 || !a.is_alias_of(b))
      return std::string("-");
    auto distance =
        static_cast<const char*>(a.const_data_ptr()) - static_cast<const char*>(b.const_data_ptr());
    return (a.is_same(b) ? "=" : "") + std::to_string(distance);
  };
  for (size_t i = 0; i < results.size(); ++i) {
    text += " r" + std::to_string(i) + "(";
    for (const at::Tensor& input : inputs) text += relate(results[i], input) + " ";
    text += "|";
    for (size_t j = 0; j < i; ++j) text += relate(results[i], results[j]) + " ";
    text += ")";
  }
  return text;
}

class Comparison {
 public:
  Comparison(const Program& program, bool exact, bool fast, const runtime::Tolerance& tolerance)
      : program_(program), exact_(exact), fast_(fast), tolerance_(tolerance) {}

  std::string operator()(int placement, int call, const Tensors& captured_before,
                         const Attempt& eager, const Attempt& came, const Tensors& eager_inputs,
                         const Tensors& inputs, const Memory& eager_memory,
                         const Memory& memory) const {
    if (eager.error != came.error)
      return "eager threw \"" + eager.error + "\", compiled threw \"" + came.error + "\"";
    if (eager.error.empty()) {
      if (eager.results.size() != came.results.size()) return "another number of results";
      for (size_t i = 0; i < eager.results.size(); ++i)
        if (std::string d = test::layout_difference(eager.results[i], came.results[i]); !d.empty())
          return "result " + std::to_string(i) + " " + d;
      std::string expected = alias_text(eager.results, eager_inputs),
                  is = alias_text(came.results, inputs);
      if (expected != is) return "aliasing: eager" + expected + ", compiled" + is;
    }
    Tensors left = eager.results, right = came.results;
    std::vector<std::string> names;
    for (size_t i = 0; i < left.size(); ++i) names.push_back("result " + std::to_string(i));
    auto add = [&](const Tensors& a, const Tensors& b, const char* what) {
      for (size_t i = 0; i < a.size(); ++i) {
        if (!a[i].defined()) continue;
        left.push_back(a[i]), right.push_back(b[i]), names.push_back(what + std::to_string(i));
      }
    };
    // All of the memory, so that a store beside a view shows as well.
    add(eager_memory.bases(), memory.bases(), "memory ");
    add(captured_of(eager_inputs), captured_of(inputs), "captured input v");
    std::string why = values(left, right, names);
    if (why.empty() || exact_ || !eager.error.empty()) return why;
    std::string rounding =
        explained_by_rounding(program_, placement, call, captured_before, left, right, fast_);
    return rounding.empty() ? "" : why + "; beyond rounding: " + rounding;
  }

 private:
  Tensors captured_of(const Tensors& inputs) const {
    Tensors out(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i)
      if (program_.sources[i].captured) out[i] = inputs[i];
    return out;
  }

  std::string values(const Tensors& left, const Tensors& right,
                     const std::vector<std::string>& names) const {
    for (size_t i = 0; i < left.size(); ++i) {
      std::string d = test::value_difference(left[i], right[i]);
      if (d.empty()) continue;
      if (!runtime::compare(left[i], right[i], tolerance_).equal) return names[i] + " " + d;
    }
    return {};
  }

  const Program& program_;
  const bool exact_, fast_;
  const runtime::Tolerance& tolerance_;
};

/// What the lowering promises for this program, by its own account.
bool read_exactness(const Program& program, const Function& f, const Tensors& arguments, bool fast,
                    runtime::Tolerance& tolerance) {
  Tensors results;
  auto trace = record::record(arguments, [&] { results = f(arguments); }, [&] { return results; });
  ops::Lowered lowered = ops::lower(trace, {.fast = fast, .target = codegen::host_target(1)});
  tolerance = runtime::tolerance_of(trace, lowered);
  // The first call may be the only one that breaks: an out= argument has the right size after it.
  if (lowered.broken)
    tolerance.exact = std::none_of(program.steps.begin(), program.steps.end(),
                                   [](const Step& step) { return step.inexact; });
  return tolerance.exact;
}

}  // namespace

Outcome check(const Program& program, bool fast) {
  Outcome out;
  Guards guards(program);
  runtime::Tolerance tolerance;
  {
    Tensors captured = make_captured(program);
    Memory sample(program, 0, 0, captured);
    attempt([&] {
      out.exact = read_exactness(program, function_of(program, captured),
                                 arguments_of(program, sample.inputs()), fast, tolerance);
      return Tensors{};
    });
  }
  Comparison compare(program, out.exact, fast, tolerance);
  Side eager{make_captured(program), {}}, compiled{make_captured(program), {}};
  eager.f = function_of(program, eager.captured);
  Options options;
  options.async = options.race = false;
  if (program.seed % 3 == 1) options.most_folded_bytes = int64_t{1} << 30;
  if (fast) options.numerics = Numerics::Fast;
  auto graft = compile(function_of(program, compiled.captured), options);
  std::vector<bool> defined;
  for (size_t p = 0; p < program.placements.size(); ++p) {
    Tensors captured = make_captured(program);
    defined.push_back(
        is_defined(program, Memory(program, static_cast<int>(p), 0, captured).inputs()));
  }
  for (size_t k = 0; k < program.calls.size(); ++k) {
    int placement = program.calls[k], call = static_cast<int>(k);
    if (!defined[static_cast<size_t>(placement)]) continue;
    const Tensors captured_before = copies_of(eager.captured);
    Memory left(program, placement, call, eager.captured),
        right(program, placement, call, compiled.captured);
    at::manual_seed(program.seed + k);
    Attempt expected = attempt([&] { return eager.f(arguments_of(program, left.inputs())); });
    at::manual_seed(program.seed + k);
    Attempt came = attempt([&] { return graft(arguments_of(program, right.inputs())); });
    out.threw = out.threw || !expected.error.empty();
    std::string why = compare(placement, call, captured_before, expected, came, left.inputs(),
                              right.inputs(), left, right);
    Report report = graft.report();
    if (why.empty() && report.verdict == Verdict::Mismatch && out.exact)
      why = "the shadow run differed: " + report.reason;
    if (why.empty() && report.verdict == Verdict::Failed)
      why = "compilation failed: " + report.reason;
    out.plan_hits = report.plan_hits;
    out.verdict = std::string(to_string(report.verdict)) + ": " + report.reason;
    if (!why.empty()) {
      out.failure = "call " + std::to_string(k + 1) + ", memory " + std::to_string(placement) +
                    ", " + to_string(report.verdict) + ": " + why;
      return out;
    }
    // Rounding may differ; the next call starts from the same numbers again.
    for (size_t i = 0; i < eager.captured.size(); ++i)
      if (eager.captured[i].defined() && !out.exact)
        std::memcpy(compiled.captured[i].storage().mutable_data(),
                    eager.captured[i].storage().data(), eager.captured[i].storage().nbytes());
  }
  return out;
}

std::string explain(const Program& program) {
  Guards guards(program);
  Tensors captured = make_captured(program);
  Options options;
  options.async = options.race = false;
  auto graft = compile(function_of(program, captured), options);
  Memory memory(program, 0, 0, captured);
  attempt([&] { return graft(arguments_of(program, memory.inputs())); });
  return graft.explain();
}

}  // namespace graft::fuzz
