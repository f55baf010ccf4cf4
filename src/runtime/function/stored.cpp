#include "runtime/function/stored.h"

#include <ATen/Context.h>

#include <ctime>
#include <stdexcept>
#include <utility>

#include "ir/text.h"
#include "runtime/process/log.h"
#include "runtime/process/text.h"
#include "runtime/store/bytes.h"
#include "runtime/store/store.h"
#include "runtime/store/trace_bytes.h"

namespace graft::runtime {

namespace {

/// What a plan depends on beside the trace and the machine.
void write(const CompileSettings& settings, ByteWriter& out) {
  const auto text = [&](std::string value) { out.text(value); };
  const auto word = [&](auto value) { out.structure(std::as_const(value)); };
  word(settings.numerics);
  word(settings.mode == Mode::MaxAutotune);
  word(settings.keep);
  word(settings.matmul);
  word(settings.ties);
  word(settings.short_factors);
  word(settings.most_folded_bytes);
  word(settings.skip_passes.size());
  for (const std::string& name : settings.skip_passes) text(name);
  word(settings.decisions.size());
  for (const auto& [id, way] : settings.decisions) text(id), text(way);
  word(at::globalContext().userEnabledMkldnn());
  for (ir::Target::VmlFormula formula : ir::Target::kVmlFormulas)
    word(settings.target.vml_has(formula));
}

/// What most operators of a trace take.
constexpr size_t kUsualOperatorBytes = 48;

/// What a key begins with.
constexpr std::string_view kOfTrace = "t", kOfKernels = "k";

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc);
  return text;
}

std::string about(const std::string& name, size_t kernels) {
  return "function " + name + "\nmade " + today() + "\nkernels " + std::to_string(kernels) + "\n";
}

}  // namespace

std::optional<StoredEntry> entry_for(const record::Trace& trace, const CompileSettings& settings) {
  // Of such settings the choices are part, which were made before.
  if (settings.tuning || settings.any_size || settings.constants) return std::nullopt;
  StoredEntry entry;
  entry.machine = machine_text(settings.target);
  if (entry.machine.empty()) return std::nullopt;
  ByteWriter key;
  key.reserve(trace.ops.size() * kUsualOperatorBytes);
  key.append(kOfTrace);
  write(settings, key);
  write(trace, key);
  if (!key.complete) return std::nullopt;
  entry.key = key.take();
  return entry;
}

void add_threads(StoredEntry& entry, int threads) {
  ByteWriter more;
  more.structure(std::as_const(threads));
  entry.key += more.take();
}

void fill(StoredEntry& entry, const CompileSettings& settings, const Scheduled& scheduled,
          const std::string& gives_up, const Autotuned& autotuned, KernelCode code) {
  const size_t kernels = code.size();
  StoredPlan plan;
  plan.operators = scheduled.operators;
  plan.tolerance = scheduled.tolerance;
  plan.gives_up = gives_up;
  plan.tuning = scheduled.tuning;
  plan.decisions = autotuned.decisions;
  plan.notes = autotuned.notes;
  plan.times = scheduled.target.times;
  plan.kept = scheduled.parts.kept;
  plan.kept_bytes = scheduled.parts.kept_bytes;
  plan.recomputed_from = scheduled.parts.recomputed_from;
  plan.code = std::move(code);
  entry.plan = bytes_of(plan, scheduled.schedule, scheduled.backward);
  entry.proof = bytes_of(Proof{});
  entry.about = about(settings.name, kernels);
  for (const OperatorReport& row : scheduled.operators)
    entry.about +=
        "operator " + row.name + " x" + std::to_string(row.count) + " " + row.fate + "\n";
}

Generated generate_kept(const ir::Schedule& schedule, const ir::Target& target,
                        const std::string& name) {
  StoredEntry entry;
  entry.machine = machine_text(target);
  ByteWriter key;
  key.append(kOfKernels);
  for (const ir::Step& step : schedule.steps)
    if (const auto* kernel = std::get_if<ir::Kernel>(&step)) {
      std::string structure = codegen::bind(*kernel).structure;
      key.text(structure);
    }
  entry.key = key.take();
  if (entry.machine.empty()) return generate(schedule, target, name);
  try {
    if (const auto found = find_stored(entry))
      return generate(schedule, target, name, code_of(found->plan));
  } catch (const std::exception& error) {
    warn_once(name + ": kept kernels are of no use: ", error.what());
  }
  Generated made = generate(schedule, target, name);
  entry.about = about(name + ", for sizes that vary", made.code.size());
  entry.proof = bytes_of(Proof{});
  entry.plan = bytes_of(made.code);
  keep_stored(entry);
  return made;
}

std::string schedule_text(const StoredEntry& entry) {
  if (!entry.key.starts_with(kOfTrace))
    throw std::runtime_error("it holds kernels for sizes that vary, and no schedule");
  ir::Schedule schedule;
  std::optional<ir::Schedule> backward;
  plan_of(entry.plan, schedule, backward);
  return ir::print(schedule) + (backward ? "backward\n" + ir::print(*backward) : "");
}

}  // namespace graft::runtime
