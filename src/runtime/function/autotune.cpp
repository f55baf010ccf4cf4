#include "runtime/function/autotune.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "graft/pool.h"
#include "runtime/function/trial.h"
#include "runtime/process/kept.h"
#include "runtime/process/log.h"
#include "runtime/process/text.h"
#include "runtime/process/worker.h"

namespace graft::runtime {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSeconds = 2;  ///< of trying, code generation and all
constexpr size_t kMostTrials = 12;
constexpr double kUnlikely = 4;  ///< ways that are estimated to cost more times than this
constexpr double kGain = 0.97;   ///< of the time before
constexpr int64_t kMostOwnBytes = int64_t{1} << 30;  ///< of arguments

bool may_run_alone(const ir::Schedule& schedule, const Plan& plan) {
  int64_t bytes = 0;
  for (const Block& block : plan.blocks()) bytes += block.is_callers() ? block.bytes : 0;
  return bytes <= kMostOwnBytes && plan.generators().empty() &&
         std::all_of(schedule.steps.begin(), schedule.steps.end(), [](const ir::Step& step) {
           const auto* call = std::get_if<ir::Extern>(&step);
           return call == nullptr || call->op.name.starts_with("aten::");
         });
}

class Autotuner {
 public:
  Autotuner(const record::Trace& trace, const CompileSettings& settings, Scheduled& scheduled,
            Generated& generated)
      : trace_(trace), settings_(settings), scheduled_(scheduled), generated_(generated) {
    settings_.tuning = scheduled.tuning;
    found_.decisions = settings.decisions;
  }

  /// The plan as it was where anything goes wrong.
  Autotuned run() {
    try {
      found_ = found_or_tried();
    } catch (const std::exception& error) {
      log(Topic::Fusion, settings_.name + ": not tuned: " + error.what());
    }
    if (ran_) pool_trim();  // the memory of its own data
    return found_;
  }

 private:
  Autotuned found_or_tried() {
    static auto* known = new Kept<std::string, Autotuned>;  // the worker may outlive static objects
    std::string key = std::to_string(settings_.target.threads) + '\n';
    for (const auto& [id, way] : settings_.decisions) key += id + '=' + way + '\n';
    key += ir::print(scheduled_.schedule);
    if (const std::optional<Autotuned> before = known->find(key)) {
      settings_.decisions = before->decisions;
      take(schedule(trace_, settings_, true));
      return *before;
    }
    const std::vector<Decision> decisions = likely();
    if (!decisions.empty() && may_run_alone(scheduled_.schedule, *generated_.plan)) {
      const at::NoGradGuard no_grad;
      const WithThreads with_threads(settings_.target.threads);
      ran_ = true;
      const OwnData data(*generated_.plan, trace_.arguments.size());
      const auto start = Clock::now();
      for (const Decision& decision : decisions) {
        const double left = kSeconds - std::chrono::duration<double>(Clock::now() - start).count();
        if (left < 0) break;
        try_way(decision, data, left);
      }
    }
    known->add(key, found_);
    return found_;
  }

  /// The closest decisions that the caller left open.
  std::vector<Decision> likely() const {
    std::vector<Decision> all = closest_first(scheduled_.decisions());
    std::erase_if(all, [&](const Decision& decision) {
      return decision.ratio() > kUnlikely || found_.decisions.contains(decision.id());
    });
    all.resize(std::min(all.size(), kMostTrials));
    return all;
  }

  /// `left`: seconds.
  void try_way(const Decision& decision, const OwnData& data, double left) {
    const std::string& way = decision.runner_up().name;
    settings_.decisions = found_.decisions;
    settings_.decisions[decision.id()] = way;
    try {
      Scheduled other = schedule(trace_, settings_, true);
      if (ir::print(other.schedule) == ir::print(scheduled_.schedule)) return;
      Generated code = generate(other.schedule, other.target, settings_.name);
      const Pair times = race(data, *generated_.plan, *code.plan, left);
      const std::string note = decision.id() + ": " + way + ", " + duration(times.other * 1e6) +
                               " against " + duration(times.before * 1e6);
      const bool better = times.other < kGain * times.before;
      log(Topic::Fusion, settings_.name + ": tried " + note + (better ? ": taken" : ""));
      if (!better) return;
      found_.decisions = settings_.decisions;
      taken_.push_back({decision.id(), way, note});
      scheduled_ = std::move(other);
      keep(std::move(code));
      write_notes();
    } catch (const std::exception& error) {  // as it was, then
      log(Topic::Fusion, settings_.name + ": not tried: " + decision.id() + ": " + error.what());
    }
  }

  /// A later decision may have left nothing to decide of an earlier one.
  void write_notes() {
    const std::vector<Decision> decisions = scheduled_.decisions();
    found_.notes.clear();
    for (const Taken& taken : taken_)
      if (std::any_of(decisions.begin(), decisions.end(), [&](const Decision& d) {
            return d.id() == taken.id && d.ways[d.taken].name == taken.way;
          }))
        found_.notes.push_back(taken.note);
  }

  void take(Scheduled other) {
    Generated code = generate(other.schedule, other.target, settings_.name);
    scheduled_ = std::move(other);
    keep(std::move(code));
  }
  void keep(Generated code) {
    generated_.plan = std::move(code.plan);
    generated_.code = std::move(code.code);
    generated_.kernels_compiled += code.kernels_compiled;
    generated_.compile_ms += code.compile_ms;
  }

  const record::Trace& trace_;
  CompileSettings settings_;
  Scheduled& scheduled_;
  Generated& generated_;
  struct Taken {
    std::string id, way, note;
  };
  std::vector<Taken> taken_;
  Autotuned found_;
  bool ran_ = false;
};

}  // namespace

Autotuned autotune(const record::Trace& trace, const CompileSettings& settings,
                   Scheduled& scheduled, Generated& generated) {
  return Autotuner(trace, settings, scheduled, generated).run();
}

}  // namespace graft::runtime
