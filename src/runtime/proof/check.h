// Everything that a call leaves, of eager's run and of the plan's, compared.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "record/gradients.h"
#include "record/recorder.h"
#include "runtime/plan/frame.h"
#include "runtime/proof/aside.h"
#include "runtime/proof/compare.h"
#include "runtime/proof/shadow.h"

namespace graft::runtime {

/// Runs whose results explain a difference.
struct Aside {
  std::vector<Outputs> disturbed;
  std::optional<Outputs> reference;
};

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
      out_.wrote_more = true;
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
    if (eager.requires_grad() != compiled.requires_grad() && !tolerance_.detaches)
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

}  // namespace graft::runtime
