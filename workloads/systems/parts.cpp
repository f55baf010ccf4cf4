#include "workloads/systems/parts.h"

#include <algorithm>

namespace graft::workloads {
namespace {

bool is_final(Verdict verdict) {
  return verdict != Verdict::NotCalled && verdict != Verdict::Compiling &&
         verdict != Verdict::Proving;
}

/// What stands for all: a part that is not done, a wrong one, one that could not be compiled; and
/// faster where any part is.
int rank(Verdict verdict) {
  if (!is_final(verdict)) return 0;
  if (verdict == Verdict::Mismatch) return 1;
  if (verdict == Verdict::Faster) return 2;
  return verdict == Verdict::NotFaster ? 3 : 4;
}

}  // namespace

std::vector<Report> Parts::reports() const {
  std::vector<Report> all;
  for (const auto& report : reports_) all.push_back(report());
  return all;
}

Report Parts::report() const {
  Report sum;
  for (const Report& part : reports()) {
    if (part.verdict == Verdict::NotCalled) continue;  // the program has no such part
    if (sum.calls == 0 || rank(part.verdict) < rank(sum.verdict)) sum.verdict = part.verdict;
    sum.calls += part.calls;
    sum.records += part.records;
    sum.plans += part.plans;
    sum.plan_hits += part.plan_hits;
    sum.family_calls += part.family_calls;
    sum.breaks += part.breaks;
    sum.kernels += part.kernels;
    sum.kernels_compiled += part.kernels_compiled;
    sum.record_ms += part.record_ms;
    sum.compile_ms += part.compile_ms;
    sum.kept_bytes += part.kept_bytes;
    sum.backward_kernels += part.backward_kernels;
    if (part.verdict != Verdict::Faster && is_final(part.verdict))
      sum.reason += (sum.reason.empty() ? "" : "; ") + part.name + ' ' + to_string(part.verdict) +
                    (part.reason.empty() ? "" : ": " + part.reason);
  }
  return sum;
}

CompiledCall Parts::in(Call program) const {
  CompiledCall out;
  static_cast<Call&>(out) = std::move(program);
  const Parts parts = *this;
  out.report = [parts] { return parts.report(); };
  out.wait = [parts] {
    for (const auto& wait : parts.waits_) wait();
  };
  out.explain = [parts] {
    std::string text;
    for (const auto& explain : parts.explanations_) text += explain() + '\n';
    return text;
  };
  out.decisions = [] { return std::vector<Decision>{}; };
  out.save = [](const std::string&) {
    throw Error("the parts of a program are functions of their own; save each of them");
  };
  return out;
}

}  // namespace graft::workloads
