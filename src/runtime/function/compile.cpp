#include "runtime/function/compile.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <sstream>

#include "codegen/backend.h"
#include "ops/lower.h"
#include "ops/replay.h"
#include "passes/disturb.h"
#include "passes/products.h"
#include "runtime/function/autotune.h"
#include "runtime/function/folded_products.h"
#include "runtime/process/log.h"
#include "runtime/process/worker.h"

namespace graft::runtime {

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// For each storage the coarsest floating type of what lies in it in the end was computed from, and
/// with.
std::vector<c10::ScalarType> coarsest_by_storage(const record::Trace& trace,
                                                 const ops::Lowered& lowered) {
  std::vector<c10::ScalarType> computed(trace.ops.size(), c10::ScalarType::Double),
      coarsest(trace.storages.size(), c10::ScalarType::Double);
  for (const ops::Approximation& a : lowered.approximated) {
    c10::ScalarType& type = computed[static_cast<size_t>(a.record)];
    type = coarser(type, a.computed);
  }
  auto each = [&](const std::vector<record::Operand>& operands, auto fn) {
    for (const record::Operand& operand : operands)
      for (int t : operand.tensors)
        if (t >= 0) fn(trace.tensors[static_cast<size_t>(t)]);
  };
  for (size_t i = 0; i < trace.ops.size(); ++i) {
    const record::OperatorRecord& op = trace.ops[i];
    c10::ScalarType type = computed[i];
    each(op.inputs, [&](const record::TensorInfo& t) {
      type = coarser(type, t.dtype);
      if (t.storage >= 0) type = coarser(type, coarsest[static_cast<size_t>(t.storage)]);
    });
    each(op.outputs, [&](const record::TensorInfo& t) { type = coarser(type, t.dtype); });
    auto makes = [&](int storage) {
      if (storage < 0) return;
      c10::ScalarType& made = coarsest[static_cast<size_t>(storage)];
      made = coarser(made, type);
    };
    for (int storage : op.mutated) makes(storage);
    each(op.outputs, [&](const record::TensorInfo& t) { makes(t.storage); });
  }
  return coarsest;
}

}  // namespace

Tolerance tolerance_of(const record::Trace& trace, const ops::Lowered& lowered) {
  Tolerance tolerance;
  tolerance.exact = lowered.exact;
  tolerance.either_zero = lowered.either_zero;
  tolerance.slack = Tolerance::slack_for(trace.ops.size());
  if (tolerance.exact) return tolerance;
  const std::vector<c10::ScalarType> coarsest = coarsest_by_storage(trace, lowered);
  auto behind = [&](int tensor) {
    if (tensor < 0) return c10::ScalarType::Double;
    const record::TensorInfo& info = trace.tensors[static_cast<size_t>(tensor)];
    c10::ScalarType own = coarser(c10::ScalarType::Double, info.dtype);
    return info.storage < 0 ? own : coarser(own, coarsest[static_cast<size_t>(info.storage)]);
  };
  for (const record::ResultInfo& result : trace.results)
    tolerance.results.push_back(behind(result.defined ? result.tensor : -1));
  for (int tensor : trace.arguments) tolerance.arguments.push_back(behind(tensor));
  for (int tensor : trace.captured_tensors) tolerance.captured.push_back(behind(tensor));
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

ops::LowerSettings lower_settings(const CompileSettings& settings) {
  return {.fast = settings.numerics == Numerics::Fast,
          .any_products = settings.matmul == Matmul::Any,
          .target = settings.target};
}

passes::Settings pass_settings(const CompileSettings& settings, bool keep_text) {
  passes::Settings made;
  made.target = settings.target;
  made.skip = settings.skip_passes;
  made.fast = settings.numerics == Numerics::Fast;
  made.decisions = settings.decisions;
  made.most_folded_bytes = settings.most_folded_bytes;
  made.any_size = settings.any_size;
  made.constants = settings.constants;
  made.keep_text = keep_text;
  return made;
}

/// Products that are worth being in kernels.
void mark_products(ops::Lowered& lowered, const ir::Target& target) {
  const std::vector<int> records = passes::worth_loops(lowered.program, target);
  for (ir::Item& item : lowered.program.items) {
    auto* call = std::get_if<ir::Extern>(&item);
    if (call == nullptr || std::count(records.begin(), records.end(), call->record) == 0) continue;
    mark_as_loops(lowered, *call);
  }
}

/// The products that tuning put into kernels, each text once.
std::vector<std::string> notes_of(const Tuning& tuning, const ir::Schedule& schedule) {
  std::set<std::string> notes;
  for (const auto& [record, text] : tuning.loops)
    if (std::none_of(schedule.steps.begin(), schedule.steps.end(),
                     [record = record](const ir::Step& step) {
                       const auto* call = std::get_if<ir::Extern>(&step);
                       return call != nullptr && call->record == record;
                     }))
      notes.insert(text);
  return {notes.begin(), notes.end()};
}

/// Before tuning.
ops::Lowered lower(const record::Trace& trace, const CompileSettings& settings) {
  ops::Lowered lowered = ops::lower(trace, lower_settings(settings));
  if (settings.short_factors)
    for (ir::Item& item : lowered.program.items)
      if (auto* call = std::get_if<ir::Extern>(&item); call != nullptr)
        call->short_factors = passes::gains_by_short_factors(*call, settings.target);
  return lowered;
}

/// With the choices that `settings` asks for; `tuning` gets them.
ops::Lowered lower_and_tune(const record::Trace& trace, const CompileSettings& settings,
                            Tuning& tuning) {
  ops::Lowered lowered = lower(trace, settings);
  if (settings.tuning) {
    tuning = *settings.tuning;
  } else if (settings.mode == Mode::MaxAutotune) {
    tuning.choices = tune(lowered, settings.target.threads);
    tuning.loops = faster_as_loops(lowered, tuning.choices, settings);
  }
  apply_tuning(tuning, lowered);
  if (lowered.broken) return lowered;
  merge_products(lowered, settings.target.threads);
  if (settings.matmul == Matmul::Any) mark_products(lowered, settings.target);
  return lowered;
}

ReadyKernel ready(const ir::Kernel& kernel, const ir::Target& target, const std::string& name,
                  Generated& out) {
  if (Worker::instance().stopping()) throw std::runtime_error("the process is exiting");
  ReadyKernel made;
  made.binding = codegen::bind(kernel);
  auto start = Clock::now();
  outlive_backend();
  bool compiled = false;
  made.code = codegen::get_or_compile(kernel, made.binding, target, compiled);
  double took = since(start);
  out.compile_ms += took;
  out.kernels_compiled += compiled;
  std::ostringstream text;
  text.precision(3);
  text << name << ": kernel " << kernel.name
       << (compiled ? " compiled in " : " found compiled, in ") << took << " ms";
  log(compiled ? Topic::Codegen : Topic::Cache, text.str());
  return made;
}

/// How the results of a region's backward may differ, of those of the whole trace.
Tolerance of_backward(Tolerance tolerance, const record::Trace::Backward& facts) {
  auto& types = tolerance.results;
  if (types.size() >= facts.results)
    types.erase(types.begin(), types.begin() + static_cast<std::ptrdiff_t>(facts.results));
  return tolerance;
}

passes::Seam seam_of(const record::Trace::Backward& facts) {
  return {facts.arguments, facts.results, facts.operators};
}

std::shared_ptr<Region> make_region(const record::Trace::Backward& facts,
                                    const Scheduled& scheduled, Generated backward,
                                    const Plan& forward) {
  auto region = std::make_shared<Region>();
  region->facts = facts;
  region->backward = std::move(backward.plan);
  region->tolerance = of_backward(scheduled.tolerance, facts);
  const std::vector<View>& arguments = scheduled.backward->signature.arguments;
  size_t next = facts.arguments;
  for (bool comes : facts.comes) region->incoming.push_back(comes ? arguments[next++] : View());
  const std::vector<ir::Result>& results = scheduled.schedule.signature.results;
  for (int kept : scheduled.parts.kept) {
    auto shares = [&](int place) {
      return results[static_cast<size_t>(place)].view.storage == kept;
    };
    const auto of = std::find_if(facts.places.begin(), facts.places.end(), shares);
    region->kept_of.push_back(of == facts.places.end() ? -1 : *of);
  }
  region->first_kept = results.size() - scheduled.parts.kept.size();
  region->kept_bytes = scheduled.parts.kept_bytes;
  region->has_effects =
      !forward.generators().empty() ||
      std::any_of(forward.blocks().begin(), forward.blocks().end(),
                  [](const Block& block) { return block.is_callers() && block.written; });
  return region;
}

void build(const record::Trace& trace, const CompileSettings& settings,
           const std::string& directory, Built& out) {
  auto start = Clock::now();
  out.autotuned.decisions = settings.decisions;
  const bool tunes = settings.mode == Mode::MaxAutotune && !settings.tuning;
  Scheduled scheduled = schedule(trace, settings, tunes || !directory.empty());
  out.plan_ms = since(start);
  out.operators = std::move(scheduled.operators);
  out.tolerance = scheduled.tolerance;
  out.gives_up = std::move(scheduled.gives_up);
  out.tuning = std::move(scheduled.tuning);
  out.broken = std::move(scheduled.broken);
  if (out.broken) {
    if (!directory.empty()) dump(directory, settings.name, trace, scheduled);
    return;
  }
  log(Topic::Fusion, settings.name + ": " + summary(out.operators));
  auto make = [&](const ir::Schedule& part) {
    start = Clock::now();
    Generated made = generate(part, scheduled.target, settings.name);
    out.plan_ms += since(start) - made.compile_ms;
    return made;
  };
  Generated generated = make(scheduled.schedule), backward;
  if (scheduled.backward)
    backward = make(*scheduled.backward);
  else if (tunes)
    out.autotuned = autotune(trace, settings, scheduled, generated);
  const std::vector<std::string> notes = notes_of(out.tuning, scheduled.schedule);
  out.autotuned.notes.insert(out.autotuned.notes.end(), notes.begin(), notes.end());
  out.kernels_compiled = generated.kernels_compiled + backward.kernels_compiled;
  out.compile_ms = generated.compile_ms + backward.compile_ms;
  if (scheduled.backward)
    out.region = make_region(*trace.backward, scheduled, std::move(backward), *generated.plan);
  if (!directory.empty()) dump(directory, settings.name, trace, scheduled);
  out.plan = std::move(generated.plan);
}

}  // namespace

Scheduled schedule(const record::Trace& trace, const CompileSettings& settings, bool keep_text) {
  Scheduled out;
  ops::Lowered lowered = lower_and_tune(trace, settings, out.tuning);
  out.operators = lowered.operators;
  out.tolerance = tolerance_of(trace, lowered);
  out.gives_up = std::move(lowered.gives_up);
  out.broken = lowered.broken;
  if (out.broken) return out;
  out.target = settings.target;
  const passes::Settings how = pass_settings(settings, keep_text);
  if (!trace.backward) {
    out.schedule = passes::run(std::move(lowered.program), how, &out.records);
    return out;
  }
  out.parts = passes::partition(lowered.program, seam_of(*trace.backward),
                                {settings.target, settings.keep == Keep::LeastMemory});
  out.broken = out.parts.refused;
  if (out.broken) return out;
  out.schedule = passes::run(std::move(out.parts.forward), how, &out.records);
  std::vector<passes::PassRecord> records;
  out.backward = passes::run(std::move(out.parts.backward), how, &records);
  for (passes::PassRecord& record : records) {
    record.name = "backward-" + record.name;
    out.records.push_back(std::move(record));
  }
  return out;
}

ops::Lowered lower_as_tuned(const record::Trace& trace, const CompileSettings& settings) {
  ops::Lowered lowered = lower(trace, settings);
  if (settings.tuning) apply_tuning(*settings.tuning, lowered);
  return lowered;
}

ir::Schedule schedule(ops::Lowered lowered, const CompileSettings& settings,
                      std::vector<passes::PassRecord>* records) {
  if (settings.matmul == Matmul::Any) mark_products(lowered, settings.target);
  passes::Settings how = pass_settings(settings, false);
  how.keep_decisions = records != nullptr;
  return passes::run(std::move(lowered.program), how, records);
}

std::vector<Decision> Scheduled::decisions() const {
  std::vector<Decision> all;
  for (const passes::PassRecord& record : records)
    all.insert(all.end(), record.decisions.begin(), record.decisions.end());
  return all;
}

ir::Schedule schedule(ir::Program program, const CompileSettings& settings) {
  return passes::run(std::move(program), pass_settings(settings, false));
}

Generated generate(const ir::Schedule& schedule, const ir::Target& target,
                   const std::string& name) {
  Generated out;
  std::vector<ReadyKernel> kernels;
  for (const ir::Step& step : schedule.steps)
    if (const auto* kernel = std::get_if<ir::Kernel>(&step))
      kernels.push_back(ready(*kernel, target, name, out));
  out.plan = std::make_unique<Plan>(schedule, std::move(kernels));
  return out;
}

Built compile_trace(const record::Trace& trace, const CompileSettings& settings,
                    const std::string& directory) noexcept {
  Built out;
  try {
    build(trace, settings, directory, out);
  } catch (const std::exception& error) {
    out.failed = error.what();
  } catch (...) {
    out.failed = "an exception of unknown type";
  }
  if (out.failed) out.plan = nullptr;
  return out;
}

Scales compile_scales(const record::Trace& trace, const CompileSettings& settings,
                      const Region* backward) noexcept {
  auto part = [&](ir::Program program) {
    if (!trace.backward) return program;
    const passes::Seam seam = seam_of(*trace.backward);
    return backward != nullptr ? passes::whole_backward(program, seam, backward->kept_of.size())
                               : passes::whole_forward(program, seam);
  };
  auto make = [&](ir::Program program) {
    return generate(schedule(part(std::move(program)), settings), settings.target, settings.name)
        .plan;
  };
  Scales made;
  try {
    Tuning tuning;
    ops::Lowered lowered = lower_and_tune(trace, settings, tuning);
    for (int which = 0; which < passes::kDisturbances; ++which)
      made.disturbed.push_back(make(passes::disturb(lowered.program, which)));
    ops::Lowered called = ops::lower_as_called(trace);
    if (called.broken) throw std::runtime_error(*called.broken);
    made.replay = make(called.program);
    if (lowered.approximated.empty()) return made;
    try {
      made.reference = make(ops::in_double(std::move(called.program), trace, lowered.approximated));
    } catch (const std::exception& error) {
      log(Topic::Codegen, settings.name + ": no reference in fp64: " + error.what());
    }
    return made;
  } catch (const std::exception& error) {
    log(Topic::Codegen, settings.name + ": no scales for its rounding: " + error.what());
  } catch (...) {
  }
  return {};
}

}  // namespace graft::runtime
