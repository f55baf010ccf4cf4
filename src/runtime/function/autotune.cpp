#include "runtime/function/autotune.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "graft/pool.h"
#include "runtime/plan/frame.h"
#include "runtime/process/kept.h"
#include "runtime/process/log.h"
#include "runtime/process/text.h"
#include "runtime/process/worker.h"

namespace graft::runtime {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSeconds = 2;            ///< of trying, code generation and all
constexpr double kSecondsOfTrial = 0.15;  ///< of running, per way
constexpr int kMostRuns = 25;             ///< of each side
constexpr int kFewestRuns = 3;
constexpr size_t kMostTrials = 12;
constexpr double kUnlikely = 4;  ///< ways that are estimated to cost more times than this
constexpr double kGain = 0.97;   ///< of the time before
constexpr int64_t kMostOwnBytes = int64_t{1} << 30;  ///< of arguments

/// Tensors like those of a call: memory of their own, arguments that overlap overlap.
class OwnData {
 public:
  explicit OwnData(const Plan& plan, size_t arguments) {
    std::vector<const ViewSpec*> views;
    for (size_t i = 0; i < arguments; ++i) views.push_back(&plan.argument_view(i));
    for (size_t i = 0; i < plan.captured_count(); ++i) views.push_back(&plan.captured_view(i));
    for (const Block& block : plan.blocks())
      storages_.push_back(block.is_callers() ? make_storage(block.bytes) : c10::Storage());
    for (size_t b = 0; b < storages_.size(); ++b)
      if (storages_[b]) fill(storages_[b], type_in(static_cast<int>(b), views));
    for (size_t i = 0; i < views.size(); ++i)
      (i < arguments ? arguments_ : captured_).push_back(tensor(*views[i]));
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
    return make_view(spec, storages_[static_cast<size_t>(spec.place.block)], spec.place.offset);
  }

  /// The dtype of the views of a block; Byte where one is of integers, which may be indices.
  static c10::ScalarType type_in(int block, const std::vector<const ViewSpec*>& views) {
    auto type = c10::ScalarType::Undefined;
    for (const ViewSpec* spec : views) {
      if (spec->place.block != block) continue;
      const bool same = type == c10::ScalarType::Undefined || type == spec->view.dtype;
      type =
          same && c10::isFloatingType(spec->view.dtype) ? spec->view.dtype : c10::ScalarType::Byte;
    }
    return type == c10::ScalarType::Undefined ? c10::ScalarType::Byte : type;
  }

  /// Numbers from 0.25 to 0.73, which no function is slow on; 0 for integers.
  static void fill(const c10::Storage& storage, c10::ScalarType type) {
    constexpr int64_t kPiece = 61 << 12;
    const auto count =
        static_cast<int64_t>(storage.nbytes()) / static_cast<int64_t>(c10::elementSize(type));
    const at::Tensor all = at::empty({0}, type).set_(storage, 0, {count}, {1});
    if (!c10::isFloatingType(type)) {
      all.zero_();
      return;
    }
    const at::Tensor piece = at::arange(std::min(kPiece, count), at::kLong)
                                 .remainder_(61)
                                 .to(at::kFloat)
                                 .mul_(1.0 / 128)
                                 .add_(0.25);
    for (int64_t first = 0; first < count; first += kPiece) {
      const int64_t length = std::min(kPiece, count - first);
      all.slice(0, first, first + length).copy_(piece.slice(0, 0, length));
    }
  }

  std::vector<c10::Storage> storages_;
  std::vector<at::Tensor> arguments_, captured_;
  detail::FlatArgs args_;
};

bool may_run_alone(const ir::Schedule& schedule, const Plan& plan) {
  int64_t bytes = 0;
  for (const Block& block : plan.blocks()) bytes += block.is_callers() ? block.bytes : 0;
  return bytes <= kMostOwnBytes && plan.generators().empty() &&
         std::all_of(schedule.steps.begin(), schedule.steps.end(), [](const ir::Step& step) {
           const auto* call = std::get_if<ir::Extern>(&step);
           return call == nullptr || call->op.name.starts_with("aten::");
         });
}

struct Pair {
  double before = 0, other = 0;  ///< seconds
};

/// The least of a few runs in turns: whatever else the machine does only adds.
Pair race(const OwnData& data, const Plan& before, const Plan& other, double left) {
  double spent = data.seconds(before) + data.seconds(other);  // which warms up
  Pair least{std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  for (int run = 0; run < kMostRuns && spent < left && !Worker::instance().stopping(); ++run) {
    if (run >= kFewestRuns && spent > kSecondsOfTrial) break;
    const Pair now{data.seconds(before), data.seconds(other)};
    spent += now.before + now.other;
    least = {std::min(least.before, now.before), std::min(least.other, now.other)};
  }
  return least;
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
      found_.notes.push_back(note);
      scheduled_ = std::move(other);
      keep(std::move(code));
    } catch (const std::exception& error) {  // as it was, then
      log(Topic::Fusion, settings_.name + ": not tried: " + decision.id() + ": " + error.what());
    }
  }

  void take(Scheduled other) {
    Generated code = generate(other.schedule, other.target, settings_.name);
    scheduled_ = std::move(other);
    keep(std::move(code));
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
  bool ran_ = false;
};

}  // namespace

Autotuned autotune(const record::Trace& trace, const CompileSettings& settings,
                   Scheduled& scheduled, Generated& generated) {
  return Autotuner(trace, settings, scheduled, generated).run();
}

}  // namespace graft::runtime
