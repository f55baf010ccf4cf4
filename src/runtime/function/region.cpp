// The proof and the race of a region: its forward as any function's, its backward beside autograd's
// own of the same call.
#include <chrono>

#include "runtime/function/core_impl.h"
#include "runtime/proof/arguments.h"
#include "runtime/proof/aside.h"
#include "runtime/region/differentiate.h"

namespace graft::detail {

using runtime::BackwardArguments;
using runtime::Differentiation;
using runtime::Race;
using runtime::Region;
using runtime::Shadow;

namespace {

/// A call that is only compared.
class Compared : public CallBase {
 public:
  std::shared_ptr<const void> result_prototype() const override { return nullptr; }
  void set_result(const void*, at::Tensor*) override {}
  std::shared_ptr<KeptCall> keep() const override { return nullptr; }

 protected:
  ~Compared() = default;
};

/// The user's call; its results as tensors that autograd does not know, as a plan's are.
class Forward final : public Compared {
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
  bool differentiates() const { return differentiates_; }

 private:
  CallBase& call_;
  Differentiation& backward_;
  bool differentiates_ = false;
};

/// Its backward, by autograd.
class Backward final : public Compared {
 public:
  Backward(Differentiation& backward, const FlatArgs& given) : backward_(backward) { args = given; }
  void run_eager() override { backward_.run(); }
  std::vector<FlatArgs> arguments() const override { return {args}; }
  std::vector<at::Tensor> result_tensors() const override { return backward_.outgoing(); }
  std::vector<uint64_t> result_words() const override { return {}; }

 private:
  Differentiation& backward_;
};

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

}  // namespace

Shadow Core::Impl::shadow_region(const Entry& entry, CallBase& call, const at::Tensor* captured) {
  const Region& region = *entry.region;
  const runtime::HeldArguments held(call);
  Differentiation backward(held.args(), entry.expected);
  Forward forward(call, backward);
  runtime::SavedGenerators before(entry.plan->generators());
  Shadow shadow = runtime::run_shadow(*entry.plan, entry.tolerance, forward, captured,
                                      entry.constants, entry.scales);
  if (shadow.outcome != Shadow::Outcome::Equal) return shadow;
  if (!forward.differentiates()) {
    shadow.outcome = Shadow::Outcome::GivenUp;
    shadow.what = backward.refused().value_or("no result requires grad");
    return shadow;
  }
  const at::Tensor* kept = shadow.results.data() + region.first_kept;
  const BackwardArguments given(region, held.tensors(), backward.incoming(), kept);
  Backward second(backward, given.args());
  return both(std::move(shadow), runtime::run_shadow(*region.backward, region.tolerance, second,
                                                     captured, {}, region.scales, &before));
}

bool Core::Impl::race_region(Entry& entry, CallBase& call) {
  c10::SmallVector<at::Tensor, 4> captured(entry.captured.size());
  if (!entry.captured.lock(call.args, captured.data())) return false;
  if (runtime::prepare(entry.participants) != runtime::Prepared::Yes) return run_eager(call), true;
  const Region& region = *entry.region;
  const runtime::HeldArguments held(call);
  // The plan first: eager may change what it reads.
  runtime::SavedGenerators drawn(entry.plan->generators());
  const auto forward = runtime::run_aside(*entry.plan, held.args(), captured.data(), drawn);
  Differentiation backward(held.args(), entry.expected);
  double eager = 0;
  auto timed = [&](auto run) {
    const auto start = std::chrono::steady_clock::now();
    run();
    eager +=
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  };
  timed([&] { run_eager(call); });
  if (!backward.begin(call.result_tensors()) || !forward) return true;
  const BackwardArguments given(region, held.tensors(), backward.incoming(),
                                forward->results.data() + region.first_kept);
  timed([&] { backward.run(); });
  runtime::SavedGenerators none(region.backward->generators());
  const auto after = runtime::run_aside(*region.backward, given.args(), captured.data(), none);
  if (!after) return true;
  const double compiled = forward->microseconds + after->microseconds;
  // The race leaves a side's first call out where it is short: then only that side's turn comes.
  if (entry.race.next() == Race::Side::Eager) entry.race.add(Race::Side::Eager, eager);
  if (entry.race.next() == Race::Side::Compiled) entry.race.add(Race::Side::Compiled, compiled);
  return true;
}

}  // namespace graft::detail
