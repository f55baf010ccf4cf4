#include "runtime/function/stored.h"

#include <ATen/Context.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <stdexcept>

#include "ir/numbers.h"
#include "runtime/key/words.h"
#include "runtime/process/log.h"
#include "runtime/process/text.h"
#include "runtime/store/bytes.h"
#include "runtime/store/store.h"

namespace graft::runtime {

namespace {

uint64_t hash_of_operators(const record::Trace& trace) {
  // Thousands of operators are often of few kinds.
  std::vector<std::pair<c10::OperatorHandle, uint64_t>> kinds;
  auto hash_of = [&](const c10::OperatorHandle& op) {
    for (const auto& [kind, hash] : kinds)
      if (kind == op) return hash;
    return kinds.emplace_back(op, std::hash<c10::OperatorName>()(op.operator_name())).second;
  };
  std::vector<uint64_t> words;
  words.reserve(trace.ops.size());
  for (const record::OperatorRecord& op : trace.ops) words.push_back(hash_of(op.op));
  return hash_words(words);
}

/// What schedule() depends on beside the program and the target, and what reports and scales say of
/// the record. Threads are part of it where calls are timed or compared.
void visit_settings(const CompileSettings& from, const ir::Program& program,
                    const record::Trace& trace, ir::NumberVisitor& v) {
  CompileSettings settings = from;
  v.structure(settings.numerics);
  v.structure(settings.mode == Mode::MaxAutotune);
  v.structure(settings.keep);
  v.structure(settings.matmul);
  v.structure(settings.short_factors);
  v.structure(settings.most_folded_bytes);
  v.size(settings.skip_passes);
  for (std::string& name : settings.skip_passes) v.text(name);
  v.structure(settings.decisions.size());
  for (auto& [id, way] : settings.decisions) {
    std::string name = id;
    v.text(name);
    v.text(way);
  }
  const bool calls =
      std::any_of(program.items.begin(), program.items.end(),
                  [](const ir::Item& item) { return std::holds_alternative<ir::Extern>(item); });
  v.structure(calls || settings.mode == Mode::MaxAutotune ? settings.target.threads : 0);
  v.structure(at::globalContext().userEnabledMkldnn());
  v.structure(hash_of_operators(trace));
  v.structure(trace.backward.has_value());
  if (!trace.backward) return;
  v.structure(std::as_const(trace.backward->arguments));
  v.structure(std::as_const(trace.backward->results));
  v.structure(std::as_const(trace.backward->operators));
}

/// What most items of a program take.
constexpr size_t kUsualItemBytes = 32;

/// What a key begins with.
constexpr std::string_view kOfProgram = "p", kOfKernels = "k";

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

std::optional<StoredEntry> entry_for(const ir::Program& program, const record::Trace& trace,
                                     const CompileSettings& settings) {
  // Of such settings the choices are part, which were made before.
  if (settings.tuning || settings.any_size || settings.constants) return std::nullopt;
  StoredEntry entry;
  entry.machine = machine_text(settings.target);
  if (entry.machine.empty()) return std::nullopt;
  ByteWriter chosen, key;
  visit_settings(settings, program, trace, chosen);
  std::string settled = chosen.take();
  key.reserve(program.items.size() * kUsualItemBytes);
  key.append(kOfProgram);
  key.text(settled);
  ir::visit(const_cast<ir::Program&>(program), key);
  if (!key.complete) return std::nullopt;
  entry.key = key.take();
  return entry;
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

std::string program_text(const StoredEntry& entry) {
  if (!entry.key.starts_with(kOfProgram))
    throw std::runtime_error("it holds kernels for sizes that vary, and no program");
  ByteReader reader(std::string_view(entry.key).substr(1));
  std::string settings;
  reader.text(settings);
  ir::Program program;
  ir::visit(program, reader);
  return ir::print(program);
}

}  // namespace graft::runtime
