#include "runtime/function/folded_products.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "passes/products.h"
#include "runtime/function/trial.h"
#include "runtime/plan/tune.h"
#include "runtime/process/kept.h"
#include "runtime/process/log.h"
#include "runtime/process/text.h"
#include "runtime/process/with_threads.h"

namespace graft::runtime {

namespace {

constexpr double kSecondsOfRace = 0.3;
constexpr double kGainAsLoops = 0.95;  ///< of the routine's time

int64_t bytes_of(const View& view) {
  return elements_reached(view.sizes, view.strides) *
         static_cast<int64_t>(c10::elementSize(view.dtype));
}

/// The call as a program of its own, whose right operand, the last, is captured; or another routine
/// of the same operands, in whatever order and form it takes them.
ir::Program alone(const ir::Extern& call, const ir::Extern& routine) {
  ir::Program program;
  ir::Extern own = routine;
  const auto place = [&](View& view, ir::Role role, int source) {
    view.byte_offset = 0;
    view.storage = static_cast<int>(program.storages.size());
    program.storages.push_back({role, bytes_of(view), source, role == ir::Role::Output});
  };
  std::vector<bool> placed_at(own.inputs.size(), false);
  for (size_t k = 0; k < call.inputs.size(); ++k) {
    const bool right = k + 1 == call.inputs.size();
    auto& views = right ? program.signature.captured : program.signature.arguments;
    View placed = call.inputs[k];
    place(placed, right ? ir::Role::Captured : ir::Role::Argument, static_cast<int>(views.size()));
    for (size_t n = 0; n < own.inputs.size(); ++n) {
      const View& given = routine.inputs[n];
      if (placed_at[n] || given.storage != call.inputs[k].storage ||
          given.byte_offset != call.inputs[k].byte_offset || bytes_of(given) > bytes_of(placed))
        continue;
      own.inputs[n].storage = placed.storage;
      own.inputs[n].byte_offset = 0;
      placed_at[n] = true;
      break;  // operands may be the same memory
    }
    views.push_back(std::move(placed));
  }
  if (std::find(placed_at.begin(), placed_at.end(), false) != placed_at.end())
    throw std::logic_error(routine.op.name + " takes what " + call.op.name + " does not");
  place(own.outputs[0], ir::Role::Output, -1);
  own.written = {own.outputs[0].storage};
  ir::Result result;
  result.view = own.outputs[0];
  program.signature.results.push_back(std::move(result));
  program.items.emplace_back(std::move(own));
  return program;
}

struct Raced {
  double loops = 0, call = 0;  ///< seconds; loops 0: they are no kernel
};

/// What else a program reads between two calls of one product, of which the caches hold no more:
/// its captured tensors, in powers of two.
int64_t bytes_between(const ir::Program& program) {
  constexpr int64_t kFewest = int64_t{1} << 20, kMost = int64_t{1} << 26;
  int64_t sum = 0;
  for (const ir::Storage& s : program.storages)
    if (s.role == ir::Role::Captured) sum += s.bytes;
  if (sum < kFewest) return 0;
  return std::min(static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(sum))), kMost);
}

/// `routine`: the call itself, or another of ATen's that is faster.
Raced race_call(const ir::Extern& call, const ir::Extern& routine, const ir::Target& target,
                std::span<const char> between) {
  // What a function's own settings change is no part of the answer, which others get, too.
  CompileSettings settings;
  settings.target = target;
  settings.most_folded_bytes = std::numeric_limits<int64_t>::max();
  const at::NoGradGuard no_grad;
  const WithThreads with_threads(settings.target.threads);
  const auto plan_of = [&](const ir::Extern& way, bool loops) {
    ir::Program program = alone(call, way);
    auto& own = std::get<ir::Extern>(program.items[0]);
    own.may_be_loops = own.may_be_alone = loops;
    return schedule(std::move(program), settings);
  };
  const ir::Schedule loops = plan_of(call, true);
  const bool is_call = std::any_of(loops.steps.begin(), loops.steps.end(), [](const ir::Step& s) {
    return std::holds_alternative<ir::Extern>(s);
  });
  if (is_call) return {};
  const auto ready = [&](const ir::Schedule& made) {
    return generate(made, settings.target, settings.name).plan;
  };
  const std::unique_ptr<Plan> own = ready(loops), aten = ready(plan_of(routine, false));
  const OwnData data(*aten, call.inputs.size() - 1);
  const Pair times = race(data, *aten, *own, kSecondsOfRace, between);
  return {times.other, times.before};
}

}  // namespace

bool may_hold_weights(const CompileSettings& settings) {
  return settings.mode == Mode::MaxAutotune && settings.most_folded_bytes > 0 &&
         settings.matmul == Matmul::Any;
}

std::map<int, std::string> faster_as_loops(const ops::Lowered& lowered,
                                           const std::vector<std::string>& choices,
                                           const CompileSettings& settings) {
  static auto* known = new Kept<CallKey, Raced>;  // the worker may outlive static objects
  std::map<int, std::string> faster;
  int64_t left = settings.most_folded_bytes;
  std::set<int> folded;  ///< storages
  if (!may_hold_weights(settings)) return faster;
  const std::set<int> candidates = passes::with_folded_operand(lowered.program, settings.target);
  const auto apart = static_cast<size_t>(bytes_between(lowered.program));
  std::vector<char> between;
  for (const ir::Item& item : lowered.program.items) {
    const auto* call = std::get_if<ir::Extern>(&item);
    if (call == nullptr || !candidates.contains(call->record)) continue;
    const ir::Extern* routine = call;
    for (size_t k = 0; k < choices.size(); ++k)
      if (!choices[k].empty() && lowered.choices[k].other.record == call->record)
        routine = &lowered.choices[k].other;
    CallKey key = call_key(*call, settings.target.threads);
    key.first += " " + routine->op.name;
    key.second.push_back(static_cast<int64_t>(apart));
    std::optional<Raced> times = known->find(key);
    try {
      if (!times) {
        between.resize(apart, 1);
        times = race_call(*call, *routine, settings.target, between);
      }
    } catch (const std::exception&) {
      continue;  // no memory for it, or no such routine
    }
    known->add(key, *times);
    log(Topic::Fusion, settings.name + ": " + call->op.name + " as loops: " +
                           (times->loops == 0 ? "no kernel" : duration(times->loops * 1e6)) +
                           " against " + duration(times->call * 1e6));
    const bool gains = times->loops > 0 && times->loops < kGainAsLoops * times->call;
    if (!gains) continue;
    const View& weight = call->inputs.back();
    const int64_t bytes = bytes_of(weight);
    if (!folded.contains(weight.storage) && bytes > left) continue;
    if (folded.insert(weight.storage).second) left -= bytes;
    faster[call->record] = call->op.name + " in a kernel, weights folded, " +
                           duration(times->loops * 1e6) + " against " + duration(times->call * 1e6);
  }
  return faster;
}

}  // namespace graft::runtime
