#include "runtime/function/autotune.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <mutex>
#include <utility>

#include "graft/pool.h"
#include "runtime/plan/frame.h"
#include "runtime/process/log.h"
#include "runtime/proof/race.h"

namespace graft::runtime {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kBudget = 2;            ///< seconds for all
constexpr double kBudgetOfTrial = 0.15;  ///< seconds of running, per way
constexpr int kMostRuns = 25;            ///< of each side
constexpr int kFewestRuns = 3;
constexpr size_t kMostTrials = 12;
constexpr double kUnlikely = 4;    ///< ways that are estimated to cost more times than this
constexpr double kWorthIt = 0.97;  ///< of the time before
constexpr int64_t kMostBytes = int64_t{1} << 30;  ///< of arguments

/// Tensors like those of a call: memory of their own, arguments that overlap overlap.
class OwnData {
 public:
  explicit OwnData(const Plan& plan, size_t arguments) {
    for (const Block& block : plan.blocks())
      storages_.push_back(block.is_callers() ? make_storage(block.bytes) : c10::Storage());
    for (size_t i = 0; i < arguments; ++i) arguments_.push_back(tensor(plan.argument_view(i)));
    for (size_t i = 0; i < plan.captured_count(); ++i)
      captured_.push_back(tensor(plan.captured_view(i)));
    for (const at::Tensor& argument : arguments_) args_.tensors.push_back(&argument);
  }
  OwnData(const OwnData&) = delete;
  OwnData& operator=(const OwnData&) = delete;

  /// Seconds that the plan takes; infinity where it gives up.
  double seconds(const Plan& plan) const {
    std::vector<at::Tensor> results(plan.result_count());
    const auto start = Clock::now();
    const bool done = plan.run(args_, captured_.data(), results.data()) == Plan::Outcome::Done;
    return done ? std::chrono::duration<double>(Clock::now() - start).count()
                : std::numeric_limits<double>::infinity();
  }

 private:
  at::Tensor tensor(const ViewSpec& spec) const {
    if (spec.place.block < 0) return {};
    const c10::Storage& storage = storages_[static_cast<size_t>(spec.place.block)];
    fill(storage, spec.view.dtype);
    return make_view(spec, storage, spec.place.offset);
  }

  /// Numbers from 0.25 to 0.73, which no function is slow on; 0 for integers, which may be indices.
  static void fill(const c10::Storage& storage, c10::ScalarType type) {
    const auto count =
        static_cast<int64_t>(storage.nbytes()) / static_cast<int64_t>(c10::elementSize(type));
    at::Tensor all = at::empty({0}, type).set_(storage, 0, {count}, {1});
    if (c10::isFloatingType(type))
      all.copy_(at::arange(count, at::kLong).remainder_(61)).mul_(1.0 / 128).add_(0.25);
    else
      all.zero_();
  }

  std::vector<c10::Storage> storages_;
  std::vector<at::Tensor> arguments_, captured_;
  detail::FlatArgs args_;
};

bool may_run_alone(const ir::Schedule& schedule, const Plan& plan) {
  int64_t bytes = 0;
  for (const Block& block : plan.blocks()) bytes += block.is_callers() ? block.bytes : 0;
  return bytes <= kMostBytes && plan.generators().empty() &&
         std::all_of(schedule.steps.begin(), schedule.steps.end(), [](const ir::Step& step) {
           const auto* call = std::get_if<ir::Extern>(&step);
           return call == nullptr || call->op.name.starts_with("aten::");
         });
}

struct Times {
  double before = 0, other = 0;
};

/// The least of a few runs in turns: whatever else the machine does only adds.
Times race(const OwnData& data, const Plan& before, const Plan& other) {
  Times least{data.seconds(before), data.seconds(other)};
  double spent = 0;
  for (int run = 0; run < kMostRuns && (run < kFewestRuns || spent < kBudgetOfTrial); ++run) {
    const Times now{data.seconds(before), data.seconds(other)};
    if (run == 0) least = now;  // the first pair warmed up
    spent += now.before + now.other;
    least = {std::min(least.before, now.before), std::min(least.other, now.other)};
  }
  return least;
}

/// What was found for schedules of this process. Nobody holds the mutex while it measures: a fork
/// in between would leave the child without it.
class Found {
 public:
  std::optional<Autotuned> find(const std::string& key) {
    std::lock_guard lock(mutex_);
    auto known = known_.find(key);
    return known == known_.end() ? std::nullopt : std::optional(known->second);
  }
  void add(const std::string& key, const Autotuned& found) {
    std::lock_guard lock(mutex_);
    known_[key] = found;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Autotuned> known_;
};

class Autotuner {
 public:
  Autotuner(const record::Trace& trace, const CompileSettings& settings, Scheduled& scheduled,
            Generated& generated)
      : trace_(trace), settings_(settings), scheduled_(scheduled), generated_(generated) {
    settings_.tuning = scheduled.tuning;
    found_.decisions = settings.decisions;
  }

  Autotuned run() {
    static auto* known = new Found;  // the worker may outlive static objects
    const std::string key =
        std::to_string(settings_.target.threads) + '\n' + ir::print(scheduled_.schedule);
    if (const std::optional<Autotuned> before = known->find(key)) {
      settings_.decisions = before->decisions;
      take(schedule(trace_, settings_, true));
      return *before;
    }
    const std::vector<Decision> decisions = likely();
    bool tried = false;
    if (!decisions.empty() && may_run_alone(scheduled_.schedule, *generated_.plan)) {
      const at::NoGradGuard no_grad;
      const WithThreads with_threads(settings_.target.threads);
      const OwnData data(*generated_.plan, trace_.arguments.size());
      const auto start = Clock::now();
      for (const Decision& decision : decisions) {
        if (std::chrono::duration<double>(Clock::now() - start).count() > kBudget) break;
        try_way(decision, data);
      }
      tried = true;
    }
    if (tried) pool_trim();  // the memory of its own data
    known->add(key, found_);
    return found_;
  }

 private:
  /// The closest decisions that the caller left open.
  std::vector<Decision> likely() const {
    std::vector<Decision> all = closest_first(scheduled_.decisions());
    std::erase_if(all, [&](const Decision& decision) {
      return decision.ratio() > kUnlikely || found_.decisions.contains(decision.id());
    });
    all.resize(std::min(all.size(), kMostTrials));
    return all;
  }

  void try_way(const Decision& decision, const OwnData& data) {
    const std::string& way = decision.runner_up().name;
    settings_.decisions = found_.decisions;
    settings_.decisions[decision.id()] = way;
    try {
      Scheduled other = schedule(trace_, settings_, true);
      if (ir::print(other.schedule) == ir::print(scheduled_.schedule)) return;
      Generated code = generate(other.schedule, other.target, settings_.name);
      const Times times = race(data, *generated_.plan, *code.plan);
      const std::string note = decision.id() + ": " + way + ", " + duration(times.other * 1e6) +
                               " against " + duration(times.before * 1e6);
      const bool better = times.other < kWorthIt * times.before;
      log(Topic::Fusion, settings_.name + ": tried " + note + (better ? ": taken" : ""));
      if (!better) return;
      found_.decisions = settings_.decisions;
      found_.notes.push_back(note);
      scheduled_ = std::move(other);
      keep(std::move(code));
    } catch (const std::exception& error) {  // as it was, then
      log(Topic::Fusion, settings_.name + ": not tried: " + decision.id() + ": " + error.what());
    }
  }

  void take(Scheduled other) {
    scheduled_ = std::move(other);
    keep(generate(scheduled_.schedule, scheduled_.target, settings_.name));
  }
  void keep(Generated code) {
    generated_.plan = std::move(code.plan);
    generated_.kernels_compiled += code.kernels_compiled;
    generated_.compile_ms += code.compile_ms;
  }

  const record::Trace& trace_;
  CompileSettings settings_;
  Scheduled& scheduled_;
  Generated& generated_;
  Autotuned found_;
};

}  // namespace

Autotuned autotune(const record::Trace& trace, const CompileSettings& settings,
                   Scheduled& scheduled, Generated& generated) {
  return Autotuner(trace, settings, scheduled, generated).run();
}

}  // namespace graft::runtime
