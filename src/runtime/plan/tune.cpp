#include "runtime/plan/tune.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/stack.h>
#include <ATen/ops/empty_strided.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "ops/constant.h"
#include "runtime/process/kept.h"
#include "runtime/process/text.h"

namespace graft::runtime {

namespace {

using Clock = std::chrono::steady_clock;
using Stack = torch::jit::Stack;

constexpr double kSecondsOfChoice = 0.3;  // seconds of measuring
constexpr int kMostSamples = 15;          // of each routine
constexpr double kGainOfChoice = 0.95;    // of the recorded operator's time

/// An operator with arguments of its own: tensors of the call's layouts, all elements 0.5.
class Candidate {
 public:
  /// Throws c10::Error where the operator is missing or memory is.
  explicit Candidate(const ir::Extern& call)
      : op_(c10::Dispatcher::singleton().findSchemaOrThrow(call.op.name.c_str(),
                                                           call.op.overload.c_str())) {
    for (size_t k = 0; k < call.slots.size(); ++k) {
      const ir::Extern::Slot& slot = call.slots[k];
      if (slot.kind == OperandKind::Constant)
        arguments_.push_back(ops::value_of(slot.constant, op_.schema().arguments().at(k).type()));
      else if (slot.kind != OperandKind::Tensor)
        throw std::logic_error("tuning: an operator that takes lists of tensors");
      else if (slot.views.at(0) < 0)
        arguments_.emplace_back();
      else
        arguments_.emplace_back(like(call.inputs.at(static_cast<size_t>(slot.views[0]))));
    }
  }

  double seconds() const {
    Stack stack = arguments_;
    auto start = Clock::now();
    op_.callBoxed(stack);
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

 private:
  static at::Tensor like(const View& view) {
    return at::empty_strided(view.sizes, view.strides, view.dtype).fill_(0.5);
  }

  c10::OperatorHandle op_;
  Stack arguments_;
};

struct Times {
  double recorded = 0, other = 0;
};

/// The least of a few runs in turns: whatever else the machine does only adds. The first runs warm
/// up, and are all there is where they take the whole budget.
Times race(const ir::Extern& recorded_call, const ir::Extern& other_call, int threads) {
  at::NoGradGuard no_grad;
  WithThreads with_threads(threads);
  const Candidate recorded(recorded_call), other(other_call);
  Times least{recorded.seconds(), other.seconds()};
  double spent = least.recorded + least.other;
  for (int i = 0; i < kMostSamples && spent < kSecondsOfChoice; ++i) {
    Times now{recorded.seconds(), other.seconds()};
    spent += now.recorded + now.other;
    least.recorded = std::min(least.recorded, now.recorded);
    least.other = std::min(least.other, now.other);
  }
  return least;
}

/// Operator, threads and layouts.
using CallKey = std::pair<std::string, std::vector<int64_t>>;

CallKey call_key(const ir::Extern& call, int threads) {
  CallKey key{call.op.name + "." + call.op.overload, {threads}};
  for (const View& view : call.inputs) {
    key.second.push_back(static_cast<int64_t>(view.dtype));
    for (const auto* part : {&view.sizes, &view.strides}) {
      key.second.push_back(static_cast<int64_t>(part->size()));
      key.second.insert(key.second.end(), part->begin(), part->end());
    }
  }
  return key;
}

/// Why the choice is taken; empty where it is not.
std::string decide(const ops::Lowered& lowered, const ops::Choice& choice, int threads) {
  static auto* measured = new Kept<CallKey, Times>;  // the worker may outlive static objects
  const auto& recorded = std::get<ir::Extern>(lowered.program.items.at(choice.item));
  const CallKey key = call_key(recorded, threads);
  std::optional<Times> times = measured->find(key);
  try {
    if (!times) times = race(recorded, choice.other, threads);
  } catch (const std::exception&) {
    return {};  // no memory for it, no such routine, or a layout that one of them refuses
  }
  measured->add(key, *times);
  if (times->other > kGainOfChoice * times->recorded) return {};
  return choice.name + ", " + duration(times->other * 1e6) + " against " +
         duration(times->recorded * 1e6);
}

}  // namespace

WithThreads::WithThreads(int count) : before_(omp_get_max_threads()) {
  omp_set_num_threads(count);
}
WithThreads::~WithThreads() {
  omp_set_num_threads(before_);
}

Tuning tune(const ops::Lowered& lowered, int threads) {
  Tuning tuning(lowered.choices.size());
  if (!at::globalContext().userEnabledMkldnn()) return tuning;
  for (size_t k = 0; k < tuning.size(); ++k)
    tuning[k] = decide(lowered, lowered.choices[k], threads);
  return tuning;
}

void apply_tuning(const Tuning& tuning, ops::Lowered& lowered) {
  for (size_t k = 0; k < tuning.size(); ++k)
    if (!tuning[k].empty()) ops::take(lowered, lowered.choices.at(k), tuning[k]);
}

}  // namespace graft::runtime
