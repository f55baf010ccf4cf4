#include "runtime/function/compile.h"

#include <atomic>
#include <chrono>
#include <sstream>

#include "codegen/backend.h"
#include "ops/lower.h"
#include "ops/replay.h"
#include "passes/disturb.h"
#include "runtime/process/log.h"
#include "runtime/process/worker.h"

namespace graft::runtime {

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

}  // namespace

Tolerance tolerance_of(const record::Trace& trace, const ops::Lowered& lowered) {
  Tolerance tolerance;
  tolerance.exact = lowered.exact;
  tolerance.either_zero = lowered.either_zero;
  for (const record::TensorInfo& tensor : trace.tensors)
    tolerance.coarsest = coarser(tolerance.coarsest, tensor.dtype);
  for (c10::ScalarType computed : lowered.approximated)
    tolerance.coarsest = coarser(tolerance.coarsest, computed);
  tolerance.slack = Tolerance::slack_for(trace.ops.size());
  return tolerance;
}

namespace {

/// Loaded code registers exit handlers; the thread has to end before they run.
void outlive_backend() {
  static std::atomic<bool> done{false};
  if (done.load()) return;
  codegen::host_backend();
  if (!done.exchange(true)) Worker::instance().stop_before_unloading();
}

std::string summary(const std::vector<OperatorReport>& operators) {
  int64_t fused = 0, views = 0, externs = 0;
  std::string why;
  for (const OperatorReport& row : operators) {
    (row.fate == "fused" ? fused : row.fate == "view" ? views : externs) += row.count;
    if (row.fate == "extern") why += (why.empty() ? "" : ", ") + row.name + " (" + row.why + ")";
  }
  return std::to_string(fused) + " operators fused, " + std::to_string(views) + " views, " +
         std::to_string(externs) + " extern" + (why.empty() ? "" : ": " + why);
}

/// Passes and code; what that takes goes to `out`, whose times began at `start`.
std::unique_ptr<Plan> make_plan(const record::Trace& trace, ir::Program program,
                                const CompileSettings& settings, Clock::time_point start,
                                Built& out) {
  const passes::Settings pass = pass_settings(settings);
  ir::Schedule schedule = passes::run(std::move(program), pass);
  std::vector<ReadyKernel> kernels;
  for (const ir::Step& step : schedule.steps) {
    const auto* kernel = std::get_if<ir::Kernel>(&step);
    if (kernel == nullptr) continue;
    if (Worker::instance().stopping()) throw std::runtime_error("the process is exiting");
    ReadyKernel ready;
    ready.binding = codegen::bind(*kernel);
    out.plan_ms = since(start) - out.compile_ms;
    auto compile_start = Clock::now();
    outlive_backend();
    bool compiled = false;
    ready.code = codegen::get_or_compile(*kernel, ready.binding, pass.target, compiled);
    double took = since(compile_start);
    out.compile_ms += took;
    out.kernels_compiled += compiled;
    std::ostringstream text;
    text.precision(3);
    text << settings.name << ": kernel " << kernel->name
         << (compiled ? " compiled in " : " found compiled, in ") << took << " ms";
    log(compiled ? Topic::Codegen : Topic::Cache, text.str());
    kernels.push_back(std::move(ready));
  }
  auto plan = std::make_unique<Plan>(trace, schedule, std::move(kernels));
  out.plan_ms = since(start) - out.compile_ms;
  return plan;
}

void build(const record::Trace& trace, const CompileSettings& settings, Built& out) {
  auto start = Clock::now();
  ops::Lowered lowered = ops::lower(trace, lower_settings(settings));
  out.operators = std::move(lowered.operators);
  out.tolerance = tolerance_of(trace, lowered);
  if (lowered.broken) {
    out.broken = std::move(lowered.broken);
    return;
  }
  log(Topic::Fusion, settings.name + ": " + summary(out.operators));
  out.plan = make_plan(trace, std::move(lowered.program), settings, start, out);
}

}  // namespace

ops::LowerSettings lower_settings(const CompileSettings& settings) {
  return {
      .fast = settings.numerics == Numerics::Fast,
      .matmuls = settings.mode == Mode::MaxAutotune ? ops::Matmuls::Fastest : ops::Matmuls::Aten,
      .threads = settings.threads};
}

passes::Settings pass_settings(const CompileSettings& settings) {
  passes::Settings made;
  made.target = codegen::host_target(settings.threads);
  made.skip = settings.skip_passes;
  made.fast = settings.numerics == Numerics::Fast;
  return made;
}

Built compile_trace(const record::Trace& trace, const CompileSettings& settings) noexcept {
  Built out;
  try {
    build(trace, settings, out);
  } catch (const std::exception& error) {
    out.failed = error.what();
  } catch (...) {
    out.failed = "an exception of unknown type";
  }
  if (out.failed) out.plan = nullptr;
  return out;
}

Scales compile_scales(const record::Trace& trace, const CompileSettings& settings) noexcept {
  // ATen's norms add one after another; its other sums add in a cascade.
  auto in_a_row = [&](int record) {
    const std::string& name = trace.ops[static_cast<size_t>(record)].op.schema().name();
    return name == "aten::norm" || name == "aten::linalg_vector_norm" || name == "aten::dist";
  };
  Scales made;
  try {
    Built unreported;
    const auto start = Clock::now();
    for (int which = 0; which < passes::kDisturbances; ++which) {
      ops::Lowered lowered = ops::lower(trace, lower_settings(settings));
      made.disturbed.push_back(
          make_plan(trace, passes::disturb(std::move(lowered.program), which, in_a_row), settings,
                    start, unreported));
    }
    ops::Lowered called = ops::lower_as_called(trace);
    if (called.broken) throw std::runtime_error(*called.broken);
    made.replay = make_plan(trace, std::move(called.program), settings, start, unreported);
    return made;
  } catch (const std::exception& error) {
    log(Topic::Codegen, settings.name + ": no scales for its rounding: " + error.what());
  } catch (...) {
  }
  return {};
}

}  // namespace graft::runtime
