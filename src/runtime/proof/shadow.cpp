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

namespace graft::runtime {

namespace {

/// Runs whose results explain a difference.
struct Aside {
  std::vector<Outputs> disturbed;
  std::optional<Outputs> reference;
};

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

class Check {
 public:
  Check(const Plan& plan, const Tolerance& tolerance, const detail::FlatArgs& args,
        const at::Tensor* captured, const Aside& aside, Shadow& out)
      : plan_(plan),
        tolerance_(tolerance),
        args_(args),
        captured_(captured),
        aside_(aside),
        out_(out) {}

  void results(const std::vector<at::Tensor>& eager, const std::vector<at::Tensor>& compiled) {
    if (eager.size() != plan_.returned_count())
      return unlike_record("eager returned " + std::to_string(eager.size()) +
                           " tensors, the record has " + std::to_string(plan_.returned_count()));
    for (size_t i = 0; i < eager.size(); ++i) {
      std::string who = "result " + std::to_string(i);
      const Tolerance tolerance = tolerance_.of(tolerance_.results, i);
      const ResultSpec& spec = plan_.results()[i];
      if (eager[i].defined() && !record::is_plain(*eager[i].unsafeGetTensorImpl())) {
        unlike_record(who + ": eager gave a " + record::describe_tensor(eager[i]));
        continue;
      }
      switch (spec.kind) {
        case ResultSpec::Kind::Argument:
        case ResultSpec::Kind::Captured:
        case ResultSpec::Kind::Same:
          if (!eager[i].is_same(spec.kind == ResultSpec::Kind::Same
                                    ? eager[static_cast<size_t>(spec.index)]
                                    : compiled[i]))
            unlike_record(who + ": eager returned another tensor object than when it was recorded");
          break;
        case ResultSpec::Kind::Undefined:
          compare_pair(who, tolerance, eager[i], compiled[i],
                       [](const Outputs&) { return at::Tensor(); });
          break;
        case ResultSpec::Kind::View:
          compare_pair(who, tolerance, eager[i], compiled[i],
                       [&](const Outputs& other) { return other.results[i]; });
          if (!block(spec.view).is_callers() && is_argument_memory(eager[i]))
            unlike_record(who + ": eager returned an argument's memory, the record has a new one");
          compare_standing(who, spec, eager[i], compiled[i]);
          break;
      }
    }
  }

  /// Tensors whose memory the plan writes, against their stand-ins.
  void written(const Plan::StandIns& stand_ins) {
    for (size_t i = 0; i < args_.tensors.size(); ++i)
      compare_written("argument " + std::to_string(i), tolerance_.of(tolerance_.arguments, i),
                      *args_.tensors[i], stand_ins,
                      [i](const Plan& plan) -> const ViewSpec& { return plan.argument_view(i); });
    for (size_t i = 0; i < plan_.captured_count(); ++i)
      compare_written("captured tensor " + std::to_string(i), tolerance_.of(tolerance_.captured, i),
                      captured_[i], stand_ins,
                      [i](const Plan& plan) -> const ViewSpec& { return plan.captured_view(i); });
  }

  /// What the plan leaves alone must be left alone by eager.
  void unwritten(const std::vector<uint32_t>& before, const std::vector<uint32_t>& after) {
    for (size_t i = 0; i < before.size(); ++i) {
      bool argument = i < args_.tensors.size();
      size_t k = argument ? i : i - args_.tensors.size();
      const ViewSpec& view = argument ? plan_.argument_view(k) : plan_.captured_view(k);
      // In-place operators on an empty tensor raise its version and store nothing.
      bool empty = argument ? args_.tensors[k]->numel() == 0 : captured_[k].numel() == 0;
      if (before[i] == after[i] || empty || (view.place.block >= 0 && block(view).written) ||
          was_raised(argument, k))
        continue;
      unlike_record((argument ? "argument " : "captured tensor ") + std::to_string(k) +
                    ": eager changed it in place, the record does not");
    }
  }

  /// Gradients that eager set, cleared or left alone.
  void set_gradients(const std::vector<at::Tensor>& before, const std::vector<at::Tensor>& after,
                     const std::vector<at::Tensor>& compiled) {
    for (size_t i = 0; i < after.size(); ++i) {
      CallersTensor owner{i >= args_.tensors.size(), static_cast<int>(i)};
      if (owner.captured) owner.index -= static_cast<int>(args_.tensors.size());
      const std::string who = std::string("the gradient of ") +
                              (owner.captured ? "captured tensor " : "argument ") +
                              std::to_string(owner.index);
      const auto spec =
          std::find_if(plan_.results().begin(), plan_.results().end(),
                       [&](const ResultSpec& result) { return result.gradient_of == owner; });
      const bool kept = after[i].is_same(before[i]);
      if (spec == plan_.results().end()) {
        if (!kept) unlike_record(who + ": eager set or cleared it, the record does not");
        continue;
      }
      if (kept && after[i].defined())
        unlike_record(who + ": eager kept the tensor, the record has a new one");
      const auto place = static_cast<size_t>(spec - plan_.results().begin());
      compare_pair(who, tolerance_.of(tolerance_.results, place), after[i], compiled[place],
                   [&](const Outputs& other) { return other.results[place]; });
      if (spec->kind == ResultSpec::Kind::View)
        compare_standing(who, *spec, after[i], compiled[place]);
    }
  }

  void unlike_record(const std::string& what) { differ(what, Shadow::Cause::Function); }

 private:
  /// Did the recorded run raise its version as well, as out= does that leaves nothing to store?
  bool was_raised(bool argument, size_t k) const {
    auto tensor = [&](size_t i) -> const at::Tensor& {
      return argument ? *args_.tensors[i] : captured_[i];
    };
    return std::any_of(plan_.raises().begin(), plan_.raises().end(), [&](const Raise& raise) {
      return raise.captured != argument &&
             tensor(static_cast<size_t>(raise.index)).is_alias_of(tensor(k));
    });
  }

  const Block& block(const ViewSpec& view) const {
    return plan_.blocks()[static_cast<size_t>(view.place.block)];
  }

  void differ(const std::string& what, Shadow::Cause cause, bool maybe_rounding = false) {
    out_.bitwise = false;
    out_.maybe_rounding = out_.maybe_rounding && maybe_rounding;
    if (out_.outcome == Shadow::Outcome::Different) return;
    out_.outcome = Shadow::Outcome::Different;
    out_.cause = cause;
    out_.what = what;
  }

  /// What autograd sees of a result.
  void compare_standing(const std::string& who, const ResultSpec& spec, const at::Tensor& eager,
                        const at::Tensor& compiled) {
    if (!eager.defined() || !compiled.defined()) return;
    if (eager.is_inference() != compiled.is_inference())
      return unlike_record(who + ": eager's is " + (eager.is_inference() ? "an" : "no") +
                           " inference tensor, unlike the recorded one");
    // Over memory that stands in, results are views of nothing.
    if (block(spec.view).is_callers() && block(spec.view).written) return;
    if (eager.is_view() != compiled.is_view())
      return unlike_record(who + ": eager's is " + (eager.is_view() ? "a" : "no") +
                           " view of another tensor, unlike the recorded one");
    if (eager.requires_grad() != compiled.requires_grad())
      unlike_record(who + ": eager's " + (eager.requires_grad() ? "requires" : "does not require") +
                    " grad, unlike the recorded one");
  }

  /// `same_of`: the tensor that another run has in place of `compiled`.
  template <class SameOf>
  void compare_pair(const std::string& who, const Tolerance& tolerance, const at::Tensor& eager,
                    const at::Tensor& compiled, SameOf same_of) {
    Witnesses witnesses;
    for (const Outputs& other : aside_.disturbed)
      if (at::Tensor same = same_of(other); same.defined())
        witnesses.disturbed.push_back(std::move(same));
    if (aside_.reference) witnesses.reference = same_of(*aside_.reference);
    Comparison found = compare(eager, compiled, tolerance, witnesses);
    out_.bitwise = out_.bitwise && found.bitwise;
    out_.by_reference = out_.by_reference || found.by_reference;
    out_.max_abs = std::max(out_.max_abs, found.max_abs);
    if (!found.equal) differ(who + " " + found.what, Shadow::Cause::Unknown, found.maybe_rounding);
  }

  /// `view_of`: where a plan has the tensor; each plan numbers its blocks by itself.
  template <class ViewOf>
  void compare_written(const std::string& who, const Tolerance& tolerance, const at::Tensor& tensor,
                       const Plan::StandIns& stand_ins, ViewOf view_of) {
    auto over = [&](const Plan& plan, const Plan::StandIns& memory) {
      const ViewSpec& view = view_of(plan);
      const bool has = view.place.block >= 0 && memory[static_cast<size_t>(view.place.block)];
      return has ? make_view(view, memory[static_cast<size_t>(view.place.block)], view.place.offset)
                 : at::Tensor();
    };
    const at::Tensor came = over(plan_, stand_ins);
    if (!came.defined()) return;
    compare_pair(who, tolerance, tensor, came,
                 [&](const Outputs& other) { return over(*other.plan, other.stand_ins); });
  }

  bool is_argument_memory(const at::Tensor& tensor) const {
    for (const at::Tensor* argument : args_.tensors)
      if (argument->defined() && tensor.defined() && tensor.nbytes() > 0 &&
          tensor.is_alias_of(*argument))
        return true;
    return false;
  }

  const Plan& plan_;
  const Tolerance& tolerance_;
  const detail::FlatArgs& args_;
  const at::Tensor* captured_;
  const Aside& aside_;
  Shadow& out_;
};

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
