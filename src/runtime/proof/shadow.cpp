#include "runtime/proof/shadow.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>

#include "record/gradients.h"
#include "record/recorder.h"
#include "runtime/communication/tape.h"
#include "runtime/key/words.h"
#include "runtime/memory/pool.h"
#include "runtime/plan/frame.h"
#include "runtime/proof/arguments.h"
#include "runtime/proof/aside.h"
#include "runtime/proof/check.h"

namespace graft::runtime {

namespace {

/// Where its memory lies, and how much there is.
std::pair<const void*, size_t> memory_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return {};
  const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  return {storage->data_ptr().get(), storage->nbytes()};
}

/// The proof of one call: eager first, for real, then the plan on copies of what eager changed.
class Proving {
 public:
  Proving(const Plan& plan, const Tolerance& tolerance, detail::CallBase& call,
          const at::Tensor* captured, std::span<const uint64_t> constants, const Scales& scales,
          SavedGenerators* forwards)
      : plan_(plan),
        tolerance_(tolerance),
        call_(call),
        captured_(captured),
        constants_(constants),
        scales_(scales),
        held_(call),
        args_(held_.args()),
        originals_(plan, args_, captured),
        generators_(plan.generators()),
        forwards_(forwards),
        tape_(plan.communicates() ? &kept_ : nullptr) {}

  /// What eager throws passes through.
  void run_eager() {
    const auto memory_before = of_each(memory_of);
    versions_before_ = of_each(version_of);
    gradients_before_ = of_each(record::gradient_of);
    const auto start = Clock::now();
    {
      // What it tells other processes, and hears, the plans only hear.
      const Tape::Scope scope(tape_, Tape::Mode::Keep);
      const EagerPool pool;  // its time is compared with the plan's
      call_.run_eager();
    }
    eager_us_ = since(start);
    moved_ = of_each(memory_of) != memory_before;
    versions_after_ = of_each(version_of);
    gradients_after_ = of_each(record::gradient_of);
    generators_.keep_eagers();
  }

  Shadow compare() {
    Shadow out;
    out.eager_us = eager_us_;
    if (moved_) {  // a plan would read where nothing is any more
      out.bitwise = out.maybe_rounding = false;
      out.outcome = Shadow::Outcome::Different;
      out.cause = Shadow::Cause::Function;
      out.what = "eager gave an argument or captured tensor other memory, the record does not";
      return out;
    }
    run_plan(out);
    if (out.outcome != Shadow::Outcome::GivenUp) explain(out);
    generators_.resume();
    out.random_disturbed = generators_.disturbed();
    out.results = std::move(compiled_);
    return out;
  }

 private:
  /// `of(tensor)` of each tensor that a call can change, arguments first.
  template <class T>
  std::vector<std::decay_t<T>> of_each(T (*of)(const at::Tensor&)) const {
    std::vector<std::decay_t<T>> all;
    for (const at::Tensor* tensor : args_.tensors) all.push_back(of(*tensor));
    for (size_t i = 0; i < plan_.captured_count(); ++i) all.push_back(of(captured_[i]));
    return all;
  }

  void run_plan(Shadow& out) {
    // Others will need the originals only where they may explain a difference.
    stand_ins_ = scales_.replay ? originals_.clone(plan_) : originals_.take();
    compiled_.resize(plan_.result_count());
    const auto start = Clock::now();
    try {
      const Tape::Scope scope(tape_, Tape::Mode::Play);
      if (plan_.run(args_, captured_, compiled_.data(), &stand_ins_) == Plan::Outcome::GivenUp)
        out.outcome = Shadow::Outcome::GivenUp;
    } catch (const std::exception& error) {
      out.outcome = Shadow::Outcome::GivenUp;
      out.what = error.what();
    }
    out.compiled_us = since(start);
    heard_alike_ = tape_ == nullptr || tape_->is_at_end();
    generators_.restore();
  }

  /// Compares; looks for what explains a difference until something does: each run takes as long as
  /// a call.
  void explain(Shadow& out) {
    const Shadow times = out;
    Aside aside;
    out = compared(times, aside);
    if (out.outcome != Shadow::Outcome::Different || !scales_.replay) return;
    // Only where eager did what was recorded, bit for bit, can a difference be rounding.
    const std::optional<Outputs> replayed = run_aside(*scales_.replay);
    if (!replayed) return;
    if (!repeats_eager(*replayed)) {
      out.cause = Shadow::Cause::Function;
      return;
    }
    for (bool more = true; more && out.outcome == Shadow::Outcome::Different;) {
      more = look_further(aside);
      out = compared(times, aside);
    }
  }

  bool repeats_eager(const Outputs& replayed) const {
    Shadow found;
    const Tolerance bits;
    const Aside none;
    Check check(*scales_.replay, bits, args_, captured_, none, found);
    check.results(call_.result_tensors(), replayed.results);
    // A region's backward writes nothing of the caller's; what its forward did is computed again.
    const auto& blocks = plan_.blocks();
    if (std::any_of(blocks.begin(), blocks.end(),
                    [](const Block& block) { return block.is_callers() && block.written; }))
      check.written(replayed.stand_ins);
    return found.outcome == Shadow::Outcome::Equal;
  }

  /// The next pair of disturbances; with the last one comes the reference. False: that was all.
  bool look_further(Aside& aside) {
    const size_t all = scales_.disturbed.size(), end = std::min(all, aside.disturbed.size() + 2);
    bool more = end < all;
    while (aside.disturbed.size() < end) {
      auto made = run_aside(*scales_.disturbed[aside.disturbed.size()]);
      if (!made) {  // each has its place, and means nothing without the first
        aside.disturbed.clear();
        more = false;
        break;
      }
      aside.disturbed.push_back(std::move(*made));
    }
    if (!more && scales_.reference) aside.reference = run_aside(*scales_.reference);
    return more;
  }

  std::optional<Outputs> run_aside(const Plan& plan) {
    const Tape::Scope scope(tape_, Tape::Mode::Play);
    if (forwards_ == nullptr)
      return runtime::run_aside(plan, args_, captured_, generators_, originals_);
    forwards_->keep_eagers();  // the forward is computed again, and draws again
    auto made = runtime::run_aside(plan, args_, captured_, *forwards_, originals_);
    forwards_->resume();
    return made;
  }

  Shadow compared(Shadow out, const Aside& aside) const {
    Check check(plan_, tolerance_, args_, captured_, aside, out);
    if (auto what = held_.changed(call_)) check.unlike_record(*what);
    if (!heard_alike_)
      check.unlike_record("eager started other collectives than when it was recorded");
    check.results(call_.result_tensors(), compiled_);
    check.written(stand_ins_);
    check.unwritten(versions_before_, versions_after_);
    check.set_gradients(gradients_before_, gradients_after_, compiled_);
    if (!same_words(call_.result_words(), constants_))
      check.unlike_record(
          "a number in the result differs from the recorded one; results that change from call to "
          "call must be tensors");
    out.by_reference = out.by_reference && out.outcome == Shadow::Outcome::Equal;
    return out;
  }

  using Clock = std::chrono::steady_clock;
  static double since(Clock::time_point start) {
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  }

  const Plan& plan_;
  const Tolerance& tolerance_;
  detail::CallBase& call_;
  const at::Tensor* const captured_;
  const std::span<const uint64_t> constants_;
  const Scales& scales_;
  const HeldArguments held_;
  const detail::FlatArgs& args_;
  Originals originals_;
  SavedGenerators generators_;
  SavedGenerators* const forwards_;
  Tape kept_;
  Tape* const tape_;
  // Of eager's run.
  double eager_us_ = 0;
  bool moved_ = false;
  std::vector<uint32_t> versions_before_, versions_after_;
  std::vector<at::Tensor> gradients_before_, gradients_after_;
  // Of the plan's.
  Plan::StandIns stand_ins_;
  std::vector<at::Tensor> compiled_;
  bool heard_alike_ = true;
};

}  // namespace

Shadow run_shadow(const Plan& plan, const Tolerance& tolerance, detail::CallBase& call,
                  const at::Tensor* captured, std::span<const uint64_t> constants,
                  const Scales& scales, SavedGenerators* forwards) {
  Proving proof(plan, tolerance, call, captured, constants, scales, forwards);
  proof.run_eager();
  try {
    return proof.compare();
  } catch (const std::exception& error) {  // the call itself is done
    Shadow out;
    out.outcome = Shadow::Outcome::GivenUp;
    out.what = error.what();
    return out;
  }
}

}  // namespace graft::runtime
