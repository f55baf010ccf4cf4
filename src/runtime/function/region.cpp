// The proof and the race of a region: its forward as any function's, its backward beside autograd's
// own of the same call.
#include <chrono>

#include "runtime/function/core_impl.h"
#include "runtime/proof/aside.h"
#include "runtime/region/differentiate.h"

namespace graft::detail {

using runtime::BackwardArguments;
using runtime::Differentiation;
using runtime::Plan;
using runtime::Race;
using runtime::Region;
using runtime::Shadow;

namespace {

/// The user's call; its results as tensors that autograd does not know, as a plan's are.
class Forward final : public CallBase {
 public:
  Forward(CallBase& call, Differentiation& backward) : call_(call), backward_(backward) {
    args = call.args;
  }
  void run_eager() override {
    call_.run_eager();
    differentiates_ = backward_.begin(call_.result_tensors());
  }
  std::vector<FlatArgs> arguments() const override { return call_.arguments(); }
  std::vector<at::Tensor> result_tensors() const override {
    return differentiates_ ? backward_.all_results() : call_.result_tensors();
  }
  std::vector<uint64_t> result_words() const override { return call_.result_words(); }
  std::shared_ptr<const void> result_prototype() const override { return nullptr; }
  void set_result(const void*, at::Tensor*) override {}
  std::shared_ptr<KeptCall> keep() const override { return nullptr; }
  bool differentiates() const { return differentiates_; }

 private:
  CallBase& call_;
  Differentiation& backward_;
  bool differentiates_ = false;
};

/// Its backward, by autograd.
class Backward final : public CallBase {
 public:
  Backward(Differentiation& backward, const FlatArgs& given) : backward_(backward) { args = given; }
  void run_eager() override { backward_.run(); }
  std::vector<FlatArgs> arguments() const override { return {args}; }
  std::vector<at::Tensor> result_tensors() const override { return backward_.outgoing(); }
  std::vector<uint64_t> result_words() const override { return {}; }
  std::shared_ptr<const void> result_prototype() const override { return nullptr; }
  void set_result(const void*, at::Tensor*) override {}
  std::shared_ptr<KeptCall> keep() const override { return nullptr; }

 private:
  Differentiation& backward_;
};

std::vector<at::Tensor> tensors_of(const FlatArgs& args) {
  std::vector<at::Tensor> all;
  for (const at::Tensor* tensor : args.tensors) all.push_back(*tensor);
  return all;
}

/// What both proved.
Shadow both(Shadow forward, const Shadow& backward) {
  forward.bitwise = forward.bitwise && backward.bitwise;
  forward.by_reference = forward.by_reference || backward.by_reference;
  forward.maybe_rounding = forward.maybe_rounding && backward.maybe_rounding;
  forward.max_abs = std::max(forward.max_abs, backward.max_abs);
  if (backward.outcome != Shadow::Outcome::Equal) {
    forward.outcome = backward.outcome;
    forward.cause = backward.cause;
    if (!backward.what.empty()) forward.what = "backward, " + backward.what;
  }
  return forward;
}

/// A run that leaves nothing behind in the caller's memory.
bool run_aside(const Plan& plan, const FlatArgs& args, const at::Tensor* captured,
               std::vector<at::Tensor>& results, double& microseconds) {
  const Plan::StandIns stand_ins = runtime::clone_written(plan, args, captured);
  runtime::SavedGenerators generators(plan.generators());
  results.assign(plan.result_count(), at::Tensor());
  const auto start = std::chrono::steady_clock::now();
  bool done = false;
  try {
    done = plan.run(args, captured, results.data(), &stand_ins) == Plan::Outcome::Done;
  } catch (const std::exception&) {
  }
  microseconds +=
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  generators.rewind();
  return done;
}

}  // namespace

Shadow Core::Impl::shadow_region(const Entry& entry, CallBase& call, const at::Tensor* captured) {
  const Region& region = *entry.region;
  const std::vector<at::Tensor> arguments = tensors_of(call.args);
  FlatArgs args;
  for (const at::Tensor& tensor : arguments) args.tensors.push_back(&tensor);
  Differentiation backward(args, entry.expected);
  Forward forward(call, backward);
  Shadow shadow = runtime::run_shadow(*entry.plan, entry.tolerance, forward, captured,
                                      entry.constants, entry.scales);
  if (shadow.outcome != Shadow::Outcome::Equal) return shadow;
  if (!forward.differentiates()) {
    shadow.outcome = Shadow::Outcome::GivenUp;
    shadow.what = backward.refused().value_or("no result requires grad");
    return shadow;
  }
  const at::Tensor* kept = shadow.results.data() + region.first_kept;
  const BackwardArguments given(region, arguments, backward.incoming(), kept);
  Backward second(backward, given.args());
  return both(std::move(shadow), runtime::run_shadow(*region.backward, region.tolerance, second,
                                                     captured, {}, region.scales));
}

bool Core::Impl::race_region(Entry& entry, CallBase& call) {
  c10::SmallVector<at::Tensor, 4> captured(entry.captured.size());
  if (!entry.captured.lock(call.args, captured.data())) return false;
  const Region& region = *entry.region;
  const std::vector<at::Tensor> arguments = tensors_of(call.args);
  FlatArgs args;
  for (const at::Tensor& tensor : arguments) args.tensors.push_back(&tensor);
  // The plan first: eager may change what it reads.
  double compiled = 0, eager = 0;
  std::vector<at::Tensor> results;
  bool done = run_aside(*entry.plan, args, captured.data(), results, compiled);
  Differentiation backward(args, entry.expected);
  auto start = std::chrono::steady_clock::now();
  auto lap = [&] {
    eager +=
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  };
  run_eager(call);
  lap();
  if (!backward.begin(call.result_tensors()) || !done) return true;
  const BackwardArguments given(region, arguments, backward.incoming(),
                                results.data() + region.first_kept);
  start = std::chrono::steady_clock::now();
  backward.run();
  lap();
  std::vector<at::Tensor> gradients;
  if (!run_aside(*region.backward, given.args(), captured.data(), gradients, compiled)) return true;
  // The race leaves a side's first call out where it is short: then only that side's turn comes.
  if (entry.race.next() == Race::Side::Eager) entry.race.add(Race::Side::Eager, eager);
  if (entry.race.next() == Race::Side::Compiled) entry.race.add(Race::Side::Compiled, compiled);
  return true;
}

}  // namespace graft::detail
