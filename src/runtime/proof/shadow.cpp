#include "runtime/proof/shadow.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "record/gradients.h"
#include "record/recorder.h"
#include "runtime/communication/tape.h"
#include "runtime/key/words.h"
#include "runtime/plan/frame.h"
#include "runtime/proof/arguments.h"
#include "runtime/proof/aside.h"
#include "runtime/proof/check.h"

namespace graft::runtime {

namespace {

/// Version counters of the tensors a call can change, to see what eager changed.
std::vector<uint32_t> versions(const detail::FlatArgs& args, const at::Tensor* captured,
                               size_t captures) {
  std::vector<uint32_t> all;
  auto add = [&](const at::Tensor& tensor) {
    all.push_back(tensor.defined() && !tensor.is_inference()
                      ? tensor.unsafeGetTensorImpl()->version_counter().current_version()
                      : 0);
  };
  for (const at::Tensor* tensor : args.tensors) add(*tensor);
  for (size_t i = 0; i < captures; ++i) add(captured[i]);
  return all;
}

/// The gradients of the tensors that a call can change them of, arguments first.
std::vector<at::Tensor> gradients(const detail::FlatArgs& args, const at::Tensor* captured,
                                  size_t captures) {
  std::vector<at::Tensor> all;
  for (const at::Tensor* tensor : args.tensors) all.push_back(record::gradient_of(*tensor));
  for (size_t i = 0; i < captures; ++i) all.push_back(record::gradient_of(captured[i]));
  return all;
}

/// Did the operators, called as recorded, give what eager gave?
bool repeats_eager(const Plan& replay, const Outputs& replayed, const detail::FlatArgs& args,
                   detail::CallBase& call, const at::Tensor* captured) {
  Shadow found;
  const Tolerance bits;
  const Aside none;
  Check check(replay, bits, args, captured, none, found);
  check.results(call.result_tensors(), replayed.results);
  check.written(replayed.stand_ins);
  return found.outcome == Shadow::Outcome::Equal;
}

/// Runs that explain a difference, as many as are needed: each takes as long as a call.
class Explanation {
 public:
  Explanation(const Scales& scales, const detail::FlatArgs& args, const at::Tensor* captured,
              const Originals& originals, SavedGenerators& generators, Tape* tape)
      : scales_(scales),
        args_(args),
        captured_(captured),
        originals_(originals),
        generators_(generators),
        tape_(tape) {}

  /// Did eager do what was recorded, bit for bit? Only then can a difference be rounding. Nothing
  /// where the recorded operators do not run again.
  std::optional<bool> eager_repeats(detail::CallBase& call) {
    const auto replayed = run(*scales_.replay);
    if (!replayed) return std::nullopt;
    return repeats_eager(*scales_.replay, *replayed, args_, call, captured_);
  }

  /// The next pair of disturbances; with the last one comes the reference. False: there is no more.
  bool look_further() {
    if (exhausted_) return false;
    for (const size_t end = aside.disturbed.size() + 2; aside.disturbed.size() < end;) {
      auto made = aside.disturbed.size() < scales_.disturbed.size()
                      ? run(*scales_.disturbed[aside.disturbed.size()])
                      : std::nullopt;
      if (!made) {  // each has its place, and means nothing without the first
        aside.disturbed.clear();
        exhausted_ = true;
        break;
      }
      aside.disturbed.push_back(std::move(*made));
    }
    exhausted_ = exhausted_ || aside.disturbed.size() == scales_.disturbed.size();
    if (exhausted_ && scales_.reference) aside.reference = run(*scales_.reference);
    return true;
  }

  Aside aside;

 private:
  std::optional<Outputs> run(const Plan& plan) {
    const Tape::Scope scope(tape_, Tape::Mode::Play);
    return run_aside(plan, args_, captured_, generators_, originals_);
  }

  const Scales& scales_;
  const detail::FlatArgs& args_;
  const at::Tensor* const captured_;
  const Originals& originals_;
  SavedGenerators& generators_;
  Tape* const tape_;
  bool exhausted_ = false;
};

/// Where the memory of what a call may touch lies.
std::vector<std::pair<const void*, size_t>> places(const detail::FlatArgs& args,
                                                   const at::Tensor* captured, size_t captures) {
  std::vector<std::pair<const void*, size_t>> all;
  const auto add = [&](const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.has_storage()) return all.emplace_back(nullptr, 0), void();
    const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
    all.emplace_back(storage->data_ptr().get(), storage->nbytes());
  };
  for (const at::Tensor* tensor : args.tensors) add(*tensor);
  for (size_t i = 0; i < captures; ++i) add(captured[i]);
  return all;
}

/// The proof of one call: eager first, for real, then the plan on copies of what eager changed.
class Proof {
 public:
  Proof(const Plan& plan, const Tolerance& tolerance, detail::CallBase& call,
        const at::Tensor* captured, std::span<const uint64_t> constants, const Scales& scales)
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
        tape_(plan.communicates() ? &kept_ : nullptr) {}

  /// What eager throws passes through.
  void run_eager() {
    const auto places_before = places(args_, captured_, plan_.captured_count());
    versions_before_ = versions(args_, captured_, plan_.captured_count());
    gradients_before_ = gradients(args_, captured_, plan_.captured_count());
    const auto start = Clock::now();
    {
      // What it tells other processes, and hears, the plans only hear.
      const Tape::Scope scope(tape_, Tape::Mode::Keep);
      call_.run_eager();
    }
    eager_us_ = since(start);
    moved_ = places(args_, captured_, plan_.captured_count()) != places_before;
    versions_after_ = versions(args_, captured_, plan_.captured_count());
    gradients_after_ = gradients(args_, captured_, plan_.captured_count());
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
  void run_plan(Shadow& out) {
    stand_ins_ = *originals_.clone(plan_);
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

  /// Compares; looks for what explains a difference until something does.
  void explain(Shadow& out) {
    const Shadow times = out;
    out = compared(times, {});
    if (out.outcome != Shadow::Outcome::Different || !scales_.replay) return;
    Explanation explanation(scales_, args_, captured_, originals_, generators_, tape_);
    const std::optional<bool> repeats = explanation.eager_repeats(call_);
    if (repeats == true)
      while (out.outcome == Shadow::Outcome::Different && explanation.look_further())
        out = compared(times, explanation.aside);
    if (repeats == false) out.cause = Shadow::Cause::Function;
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
  const Originals originals_;
  SavedGenerators generators_;
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
                  const Scales& scales) {
  Proof proof(plan, tolerance, call, captured, constants, scales);
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
