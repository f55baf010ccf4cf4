#include "runtime/plan/tune.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/stack.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

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

/// An operator with arguments of its own, for one call or several. Throws c10::Error where the
/// operator is missing or memory is.
class Routine {
 public:
  explicit Routine(const ir::OperatorName& op)
      : op(c10::Dispatcher::singleton().findSchemaOrThrow(op.name.c_str(), op.overload.c_str())) {}

  std::vector<at::Tensor> run() const {
    std::vector<at::Tensor> results;
    for (Stack stack : calls) {
      op.callBoxed(stack);
      results.push_back(stack.at(0).toTensor());
    }
    return results;
  }
  double seconds() const {
    const auto start = Clock::now();
    run();
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  c10::OperatorHandle op;
  std::vector<Stack> calls;
};

/// One call, with tensors of the call's layouts, all elements 0.5.
Routine candidate(const ir::Extern& call) {
  Routine made(call.op);
  auto like = [](const View& view) {
    return at::empty_strided(view.sizes, view.strides, view.dtype).fill_(0.5);
  };
  Stack arguments;
  for (size_t k = 0; k < call.slots.size(); ++k) {
    const ir::Extern::Slot& slot = call.slots[k];
    if (slot.kind == OperandKind::Constant)
      arguments.push_back(ops::value_of(slot.constant, made.op.schema().arguments().at(k).type()));
    else if (slot.kind == OperandKind::Number)
      arguments.emplace_back(0.5);
    else if (slot.kind != OperandKind::Tensor)
      throw std::logic_error("tuning: an operator that takes lists of tensors");
    else if (slot.views.at(0) < 0)
      arguments.emplace_back();
    else
      arguments.emplace_back(like(call.inputs.at(static_cast<size_t>(slot.views[0]))));
  }
  made.calls.push_back(std::move(arguments));
  return made;
}

struct Times {
  double recorded = 0, other = 0;
};

/// The least of a few runs in turns: whatever else the machine does only adds. The first runs warm
/// up, and are all there is where they take the whole budget.
Times race(const ir::Extern& recorded_call, const ir::Extern& other_call, int threads) {
  at::NoGradGuard no_grad;
  WithThreads with_threads(threads);
  const Routine recorded = candidate(recorded_call), other = candidate(other_call);
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

void append(CallKey& key, const std::vector<View>& views) {
  for (const View& view : views) {
    key.second.push_back(static_cast<int64_t>(view.dtype));
    for (const auto* part : {&view.sizes, &view.strides}) {
      key.second.push_back(static_cast<int64_t>(part->size()));
      key.second.insert(key.second.end(), part->begin(), part->end());
    }
  }
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

const ir::Extern& call_at(const ir::Program& program, const passes::ProductsToMerge& group,
                          size_t k) {
  return std::get<ir::Extern>(program.items.at(group.items.at(k)));
}

/// Runs the products one by one, and as one, over the same random numbers.
bool try_merge(const ir::Program& program, const passes::ProductsToMerge& group) {
  constexpr int kRuns = 3;
  const ir::Extern &first = call_at(program, group, 0), &second = call_at(program, group, 1);
  Routine each(first.op), one(group.merged.op);
  each.calls.resize(group.items.size());
  one.calls.resize(1);
  const at::Generator random = at::detail::createCPUGenerator(1);
  for (size_t k = 0; k < first.inputs.size(); ++k) {
    const View &whole = group.merged.inputs[k], &part = first.inputs[k];
    const at::Tensor memory =
        at::empty({elements_reached(whole.sizes, whole.strides)}, whole.dtype);
    memory.normal_(0, 1, random);
    one.calls[0].emplace_back(memory.as_strided(whole.sizes, whole.strides));
    const int64_t step = (second.inputs[k].byte_offset - part.byte_offset) /
                         static_cast<int64_t>(c10::elementSize(part.dtype));
    for (size_t i = 0; i < each.calls.size(); ++i)
      each.calls[i].emplace_back(
          memory.as_strided(part.sizes, part.strides, step * static_cast<int64_t>(i)));
  }
  if (first.inputs.size() == 3)  // beta and alpha
    for (Routine* routine : {&one, &each})
      for (Stack& stack : routine->calls) stack.insert(stack.end(), {1, 1});

  const std::vector<at::Tensor> parts = each.run();
  const at::Tensor whole = one.run()[0];
  const auto* at = static_cast<const char*>(whole.const_data_ptr());
  for (const at::Tensor& part : parts) {
    if (std::memcmp(at, part.const_data_ptr(), part.nbytes()) != 0) return false;
    at += part.nbytes();
  }
  auto least = [](const Routine& routine) {
    double seconds = routine.seconds();
    for (int i = 1; i < kRuns; ++i) seconds = std::min(seconds, routine.seconds());
    return seconds;
  };
  return least(one) < least(each);
}

bool is_better_as_one(const ir::Program& program, const passes::ProductsToMerge& group,
                      int threads) {
  static auto* tried = new Kept<CallKey, bool>;  // the worker may outlive static objects
  CallKey key = call_key(group.merged, threads);
  for (size_t k = 0; k < 2; ++k) {
    const ir::Extern& call = call_at(program, group, k);
    append(key, call.inputs);
    for (const View& view : call.inputs) key.second.push_back(view.byte_offset);
  }
  if (auto known = tried->find(key)) return *known;
  bool better = false;
  try {
    at::NoGradGuard no_grad;
    WithThreads with_threads(threads);
    better = try_merge(program, group);
  } catch (const std::exception&) {  // no memory, or a dtype that has no such routine
  }
  tried->add(key, better);
  return better;
}

}  // namespace

CallKey call_key(const ir::Extern& call, int threads) {
  CallKey key{call.op.name + "." + call.op.overload, {threads, call.short_factors}};
  append(key, call.inputs);
  return key;
}

std::vector<std::string> tune(const ops::Lowered& lowered, int threads) {
  std::vector<std::string> tuning(lowered.choices.size());
  if (!at::globalContext().userEnabledMkldnn()) return tuning;
  for (size_t k = 0; k < tuning.size(); ++k)
    tuning[k] = decide(lowered, lowered.choices[k], threads);
  return tuning;
}

void mark_as_loops(ops::Lowered& lowered, ir::Extern& product) {
  product.may_be_loops = true;
  lowered.exact = false;
  const c10::ScalarType computed =
      product.short_factors ? c10::ScalarType::BFloat16 : product.outputs[0].dtype;
  lowered.approximated.push_back({computed, product.record});
}

void apply_tuning(const Tuning& tuning, ops::Lowered& lowered) {
  for (size_t k = 0; k < tuning.choices.size(); ++k) {
    const ops::Choice& choice = lowered.choices.at(k);
    if (!tuning.choices[k].empty() && !tuning.loops.contains(choice.other.record))
      ops::take(lowered, choice, tuning.choices[k]);
  }
  for (ir::Item& item : lowered.program.items) {
    auto* call = std::get_if<ir::Extern>(&item);
    if (call == nullptr || !tuning.loops.contains(call->record)) continue;
    mark_as_loops(lowered, *call);
    call->may_be_alone = true;
    lowered.broken.reset();  // nothing was gained before
  }
}

void merge_products(ops::Lowered& lowered, int threads) {
  std::vector<passes::ProductsToMerge> taken;
  for (passes::ProductsToMerge& group : passes::products_to_merge(lowered.program))
    if (is_better_as_one(lowered.program, group, threads)) taken.push_back(std::move(group));
  for (const passes::ProductsToMerge& group : taken) {
    // The bits were the same, but nothing promises that they always are.
    lowered.exact = false;
    lowered.approximated.push_back(
        {group.merged.outputs[0].dtype, call_at(lowered.program, group, 0).record});
  }
  lowered.program = passes::merge_products(std::move(lowered.program), taken);
}

}  // namespace graft::runtime
