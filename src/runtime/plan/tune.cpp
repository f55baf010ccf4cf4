#include "runtime/plan/tune.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/stack.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstring>
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

void append(CallKey& key, const std::vector<View>& views) {
  for (const View& view : views) {
    key.second.push_back(static_cast<int64_t>(view.dtype));
    for (const auto* part : {&view.sizes, &view.strides}) {
      key.second.push_back(static_cast<int64_t>(part->size()));
      key.second.insert(key.second.end(), part->begin(), part->end());
    }
  }
}

CallKey call_key(const ir::Extern& call, int threads) {
  CallKey key{call.op.name + "." + call.op.overload, {threads}};
  append(key, call.inputs);
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

/// Products one by one, and as one, over the same random numbers.
class Merge {
 public:
  Merge(const ir::Program& program, const passes::ProductsToMerge& group)
      : one_(op_of(group.merged)), each_(op_of(call(program, group, 0))) {
    const at::Generator random = at::detail::createCPUGenerator(1);
    const ir::Extern &first = call(program, group, 0), &second = call(program, group, 1);
    std::vector<Stack> calls(group.items.size());
    Stack all;
    for (size_t k = 0; k < first.inputs.size(); ++k) {
      const View& whole = group.merged.inputs[k];
      const at::Tensor memory =
          at::empty({elements_reached(whole.sizes, whole.strides)}, whole.dtype);
      memory.normal_(0, 1, random);
      all.emplace_back(memory.as_strided(whole.sizes, whole.strides));
      const View& part = first.inputs[k];
      const int64_t step = (second.inputs[k].byte_offset - part.byte_offset) /
                           static_cast<int64_t>(c10::elementSize(part.dtype));
      for (size_t i = 0; i < calls.size(); ++i)
        calls[i].emplace_back(
            memory.as_strided(part.sizes, part.strides, step * static_cast<int64_t>(i)));
    }
    one_.arguments = {std::move(all)};
    each_.arguments = std::move(calls);
    if (first.inputs.size() == 3)
      for (Routine* routine : {&one_, &each_})
        for (Stack& stack : routine->arguments) stack.insert(stack.end(), {1, 1});
  }

  bool is_better() {
    const std::vector<at::Tensor> parts = each_.run(), whole = one_.run();
    for (size_t i = 0; i < parts.size(); ++i) {
      const at::Tensor part = whole[0].flatten().narrow(
          0, static_cast<int64_t>(i) * parts[0].numel(), parts[0].numel());
      if (std::memcmp(part.const_data_ptr(), parts[i].const_data_ptr(), parts[i].nbytes()) != 0)
        return false;
    }
    return one_.seconds() < each_.seconds();
  }

 private:
  struct Routine {
    c10::OperatorHandle op;
    std::vector<Stack> arguments;

    std::vector<at::Tensor> run() const {
      std::vector<at::Tensor> results;
      for (Stack stack : arguments) {
        op.callBoxed(stack);
        results.push_back(stack.at(0).toTensor());
      }
      return results;
    }
    double seconds() const {
      double least = 1e9;
      for (int i = 0; i < 3; ++i) {
        const auto start = Clock::now();
        run();
        least = std::min(least, std::chrono::duration<double>(Clock::now() - start).count());
      }
      return least;
    }
  };

  static const ir::Extern& call(const ir::Program& program, const passes::ProductsToMerge& group,
                                size_t k) {
    return std::get<ir::Extern>(program.items.at(group.items.at(k)));
  }
  static Routine op_of(const ir::Extern& call) {
    return {c10::Dispatcher::singleton().findSchemaOrThrow(call.op.name.c_str(),
                                                           call.op.overload.c_str()),
            {}};
  }

  Routine one_, each_;
};

bool is_better_as_one(const ir::Program& program, const passes::ProductsToMerge& group,
                      int threads) {
  static auto* tried = new Kept<CallKey, bool>;  // the worker may outlive static objects
  CallKey key = call_key(group.merged, threads);
  for (size_t k = 0; k < 2; ++k) {
    const auto& call = std::get<ir::Extern>(program.items.at(group.items[k]));
    append(key, call.inputs);
    for (const View& view : call.inputs) key.second.push_back(view.byte_offset);
  }
  if (auto known = tried->find(key)) return *known;
  bool better = false;
  try {
    at::NoGradGuard no_grad;
    WithThreads with_threads(threads);
    better = Merge(program, group).is_better();
  } catch (const std::exception&) {  // no memory, or a dtype that has no such routine
  }
  tried->add(key, better);
  return better;
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

void merge_products(ops::Lowered& lowered, int threads) {
  std::vector<passes::ProductsToMerge> taken;
  for (passes::ProductsToMerge& group : passes::products_to_merge(lowered.program))
    if (is_better_as_one(lowered.program, group, threads)) taken.push_back(std::move(group));
  for (const passes::ProductsToMerge& group : taken) {
    // The bits were the same, but nothing promises that they always are.
    const auto& first = std::get<ir::Extern>(lowered.program.items.at(group.items.front()));
    lowered.exact = false;
    lowered.approximated.push_back({group.merged.outputs[0].dtype, first.record});
  }
  lowered.program = passes::merge_products(std::move(lowered.program), taken);
}

}  // namespace graft::runtime
