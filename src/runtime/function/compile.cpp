#include "runtime/function/compile.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <sstream>

#include "codegen/backend.h"
#include "ops/lower.h"
#include "passes/attention.h"
#include "passes/products.h"
#include "runtime/function/autotune.h"
#include "runtime/function/folded_products.h"
#include "runtime/function/scales.h"
#include "runtime/function/stored.h"
#include "runtime/process/log.h"
#include "runtime/process/term_order.h"
#include "runtime/process/worker.h"
#include "runtime/store/store.h"

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
  std::map<std::string, int64_t> counts;
  std::string why;
  for (const OperatorReport& row : operators) {
    counts[row.fate] += row.count;
    if (row.fate == "extern") why += (why.empty() ? "" : ", ") + row.name + " (" + row.why + ")";
  }
  const auto count = [&](const char* fate) { return std::to_string(counts[fate]); };
  return count("fused") + " operators fused, " + count("view") + " views, " +
         (counts["checked"] > 0 ? count("checked") + " conditions, " : "") + count("extern") +
         " extern" + (why.empty() ? "" : ": " + why);
}

ops::LowerSettings lower_settings(const CompileSettings& settings) {
  return {.fast = settings.numerics == Numerics::Fast,
          .any_products = settings.matmul == Matmul::Any,
          .any_size = settings.any_size,
          .ties = settings.ties,
          .order_of_terms = settings.any_size ? nullptr : runtime::order_of_terms,
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

/// Calls that may be loops: products that are worth being in kernels, and attention.
void mark_loops(ops::Lowered& lowered, const CompileSettings& settings) {
  if (settings.matmul != Matmul::Any) return;
  std::map<int, bool> alone;  // by record
  for (const passes::WorthLoops& product : passes::worth_loops(lowered.program, settings.target))
    alone[product.record] = product.alone;
  for (const int record : passes::attention_as_loops(lowered.program, settings.target))
    alone[record] = true;
  for (ir::Item& item : lowered.program.items) {
    auto* call = std::get_if<ir::Extern>(&item);
    if (call == nullptr || !alone.contains(call->record)) continue;
    mark_as_loops(lowered, *call);
    if (!alone[call->record]) continue;
    call->may_be_alone = true;
    lowered.broken.reset();  // nothing was gained before
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

/// Before tuning: what may be held is a call.
ops::Lowered lower(const record::Trace& trace, const CompileSettings& settings) {
  ops::LowerSettings how = lower_settings(settings);
  if (settings.tuning)
    how.holds = [&](int record) { return settings.tuning->loops.contains(record); };
  else if (may_hold_weights(settings))
    how.holds = [](int /*record*/) { return true; };
  return ops::lower(trace, how);
}

/// … and is not: loops of few rows, after all. Choices are for calls that there are still.
void lower_unheld(const record::Trace& trace, CompileSettings settings, ops::Lowered& lowered,
                  Tuning& tuning) {
  const bool are_held = std::all_of(lowered.held.begin(), lowered.held.end(),
                                    [&](int record) { return tuning.loops.contains(record); });
  if (are_held) return;
  std::map<int, std::string> chosen;
  for (size_t k = 0; k < tuning.choices.size(); ++k)
    chosen[lowered.choices[k].other.record] = tuning.choices[k];
  settings.tuning = Tuning{{}, tuning.loops};
  lowered = lower(trace, settings);
  tuning.choices.clear();
  for (const ops::Choice& choice : lowered.choices)
    tuning.choices.push_back(chosen[choice.other.record]);
}

/// `held`: the products whose weights are, or may be.
void mark_short_factors(ops::Lowered& lowered, const CompileSettings& settings,
                        const std::set<int>& held) {
  if (settings.short_factors) passes::mark_short_factors(lowered.program, settings.target, held);
}
void mark_short_factors(ops::Lowered& lowered, const CompileSettings& settings,
                        const Tuning& tuning) {
  std::set<int> held;
  for (const auto& [record, note] : tuning.loops) held.insert(record);
  mark_short_factors(lowered, settings, held);
}

/// Makes the choices that `settings` asks for; `tuning` gets them.
void tune(const record::Trace& trace, ops::Lowered& lowered, const CompileSettings& settings,
          Tuning& tuning) {
  if (settings.tuning) {
    tuning = *settings.tuning;
  } else if (settings.mode == Mode::MaxAutotune) {
    mark_short_factors(lowered, settings,
                       passes::with_folded_operand(lowered.program, settings.target));
    tuning.choices = runtime::tune(lowered, settings.target.threads);
    tuning.loops = faster_as_loops(lowered, tuning.choices, settings);
    lower_unheld(trace, settings, lowered, tuning);
  }
  mark_short_factors(lowered, settings, tuning);
  apply_tuning(tuning, lowered);
  if (!lowered.broken) merge_products(lowered, settings.target.threads);
  mark_loops(lowered, settings);
}

/// What does not depend on passes.
void take_facts(const record::Trace& trace, ops::Lowered& lowered, Scheduled& out) {
  out.operators = lowered.operators;
  out.tolerance = tolerance_of(trace, lowered);
  out.gives_up = std::move(lowered.gives_up);
  out.broken = lowered.broken;
}

Scheduled schedule(const record::Trace& trace, ops::Lowered lowered,
                   const CompileSettings& settings, bool keep_text) {
  Scheduled out;
  std::optional<std::string> nothing_fused = lowered.broken;
  tune(trace, lowered, settings, out.tuning);
  if (std::any_of(out.tuning.choices.begin(), out.tuning.choices.end(),
                  [](const std::string& taken) { return !taken.empty(); }))
    nothing_fused.reset();  // another routine gains by itself
  take_facts(trace, lowered, out);
  if (out.broken) return out;
  out.target = settings.target;
  const passes::Settings how = pass_settings(settings, keep_text);
  if (!trace.backward) {
    out.schedule = passes::run(std::move(lowered.program), how, &out.records);
    const auto& steps = out.schedule.steps;
    const bool calls = std::none_of(steps.begin(), steps.end(), [](const ir::Step& step) {
      return std::holds_alternative<ir::Kernel>(step);
    });
    if (nothing_fused && calls) out.broken = nothing_fused;  // products that fit no kernel
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

ReadyKernel ready(const ir::Kernel& kernel, const ir::Target& target, const std::string& name,
                  std::shared_ptr<const codegen::Code> known, Generated& out) {
  if (Worker::instance().stopping()) throw std::runtime_error("the process is exiting");
  ReadyKernel made;
  made.binding = codegen::bind(kernel);
  auto start = Clock::now();
  const bool is_known = known != nullptr;
  if (!is_known) outlive_backend();
  bool compiled = false;
  made.code = codegen::get_or_compile(kernel, made.binding, target, std::move(known), compiled);
  double took = since(start);
  out.compile_ms += took;
  out.kernels_compiled += compiled;
  std::ostringstream text;
  text.precision(3);
  text << name << ": kernel " << kernel.name
       << (compiled   ? " compiled in "
           : is_known ? " linked in "
                      : " found compiled, in ")
       << took << " ms";
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
  const auto recomputed = [&](const View& tensor) {
    const std::vector<int>& from = scheduled.parts.recomputed_from;
    return std::find(from.begin(), from.end(), tensor.storage) != from.end();
  };
  for (size_t k = 0; k < facts.arguments; ++k)
    region->recomputes_argument.push_back(recomputed(arguments[k]));
  for (const View& captured : scheduled.backward->signature.captured)
    region->recomputes_captured.push_back(recomputed(captured));
  region->has_effects =
      !forward.generators().empty() ||
      std::any_of(forward.blocks().begin(), forward.blocks().end(),
                  [](const Block& block) { return block.is_callers() && block.written; });
  return region;
}

/// The part of `known` that a schedule's kernels have, the first of which is number `first`.
KernelCode part_of(const KernelCode& known, size_t first, const ir::Schedule& schedule) {
  if (known.empty()) return {};
  const auto kernels = static_cast<size_t>(
      std::count_if(schedule.steps.begin(), schedule.steps.end(),
                    [](const ir::Step& step) { return std::holds_alternative<ir::Kernel>(step); }));
  if (known.size() - std::min(first, known.size()) < kernels)
    throw std::runtime_error("it has less code than kernels");
  const auto from = known.begin() + static_cast<std::ptrdiff_t>(first);
  return {from, from + static_cast<std::ptrdiff_t>(kernels)};
}

/// From a schedule to plans. `tunes`: MaxAutotune, for the first time.
void finish(const record::Trace& trace, const CompileSettings& settings, Scheduled& scheduled,
            const KernelCode& known, bool tunes, Built& out) {
  log(Topic::Fusion, settings.name + ": " + summary(out.operators));
  Generated generated = generate(scheduled.schedule, scheduled.target, settings.name,
                                 part_of(known, 0, scheduled.schedule)),
            backward;
  if (scheduled.backward)
    backward = generate(*scheduled.backward, scheduled.target, settings.name,
                        part_of(known, generated.code.size(), *scheduled.backward));
  else if (tunes)
    out.autotuned = autotune(trace, settings, scheduled, generated);
  out.times = scheduled.target.times;
  out.kernels_compiled = generated.kernels_compiled + backward.kernels_compiled;
  out.compile_ms = generated.compile_ms + backward.compile_ms;
  out.code = std::move(generated.code);
  out.code.insert(out.code.end(), backward.code.begin(), backward.code.end());
  if (scheduled.backward)
    out.region = make_region(*trace.backward, scheduled, std::move(backward), *generated.plan);
  out.plan = std::move(generated.plan);
}

void take_facts(Scheduled& scheduled, Built& out) {
  out.operators = scheduled.operators;
  out.tolerance = scheduled.tolerance;
  out.gives_up = std::move(scheduled.gives_up);
  out.tuning = scheduled.tuning;
  out.broken = std::move(scheduled.broken);
}

/// Null where it has no form outside of this process: the plan is none the worse.
std::shared_ptr<const StoredEntry> filled(StoredEntry entry, const CompileSettings& settings,
                                          const Scheduled& scheduled, Built& out) {
  try {
    fill(entry, settings, scheduled, out.gives_up, out.autotuned, std::move(out.code));
    return std::make_shared<const StoredEntry>(std::move(entry));
  } catch (const std::exception& error) {
    log(Topic::Cache, settings.name + ": not kept: " + error.what());
    return nullptr;
  }
}

/// Takes the kept plan with that machine and key, if there is one.
void find(const record::Trace& trace, const CompileSettings& settings, const StoredEntry& wanted,
          Clock::time_point start, Built& out) {
  const std::shared_ptr<const StoredEntry> entry = find_stored(wanted);
  if (entry == nullptr) return;
  proof_of(entry->proof);  // throws where it cannot be read
  Scheduled scheduled;
  StoredPlan plan = plan_of(entry->plan, scheduled.schedule, scheduled.backward);
  scheduled.operators = std::move(plan.operators);
  scheduled.tolerance = std::move(plan.tolerance);
  scheduled.gives_up = std::move(plan.gives_up);
  scheduled.tuning = std::move(plan.tuning);
  scheduled.target = settings.target;
  scheduled.target.times = plan.times;
  scheduled.parts.kept = std::move(plan.kept);
  scheduled.parts.kept_bytes = plan.kept_bytes;
  scheduled.parts.recomputed_from = std::move(plan.recomputed_from);
  take_facts(scheduled, out);
  finish(trace, settings, scheduled, plan.code, false, out);
  out.autotuned = {std::move(plan.decisions), std::move(plan.notes)};
  const std::vector<StoredScales> scales = scales_of(entry->scales);
  if (!scales.empty()) out.scales = load_scales(scales[0], settings);
  if (scales.size() > 1 && out.region) out.region->scales = load_scales(scales[1], settings);
  out.stored = entry;
  out.found = true;
  out.plan_ms = since(start) - out.compile_ms;
  std::ostringstream text;
  text.precision(3);
  text << settings.name << ": found a kept plan of " << out.code.size() << " kernels, in "
       << since(start) << " ms";
  log(Topic::Cache, text.str());
}

/// Never throws: what cannot be used is compiled anew. Is there a plan in `out` then?
bool found_stored(const record::Trace& trace, const CompileSettings& settings,
                  const StoredEntry& wanted, Clock::time_point start, Built& out) noexcept {
  try {
    find(trace, settings, wanted, start, out);
    return out.plan != nullptr;
  } catch (const std::exception& error) {
    if (!Worker::instance().stopping())
      warn_once(settings.name + ": a kept plan is of no use: ", error.what());
  } catch (...) {
  }
  out = {};
  return false;
}

/// Does a plan depend on how many threads run it? Calls are timed or compared.
bool uses_threads(const ir::Program& program, const CompileSettings& settings) {
  return settings.mode == Mode::MaxAutotune ||
         std::any_of(program.items.begin(), program.items.end(),
                     [](const ir::Item& item) { return std::holds_alternative<ir::Extern>(item); });
}

/// As found_stored(), of an entry for any number of threads or for these. (Which it would be, only
/// the program tells, and what is kept needs none.)
bool found_any(const record::Trace& trace, const CompileSettings& settings, StoredEntry wanted,
               Clock::time_point start, Built& out) {
  if (found_stored(trace, settings, wanted, start, out)) return true;
  add_threads(wanted, settings.target.threads);
  return found_stored(trace, settings, wanted, start, out);
}

void build(const record::Trace& trace, const CompileSettings& settings,
           const std::string& directory, Built& out) {
  auto start = Clock::now();
  std::optional<StoredEntry> entry = entry_for(trace, settings);
  // An equal function may have been compiled since: 32 layers are compiled once. A dump wants the
  // passes' texts.
  const bool looks = entry && settings.cache && directory.empty();
  if (looks && found_any(trace, settings, *entry, start, out)) return;
  ops::Lowered lowered = lower(trace, settings);
  if (entry && uses_threads(lowered.program, settings))
    add_threads(*entry, settings.target.threads);
  out.autotuned.decisions = settings.decisions;
  const bool tunes = settings.mode == Mode::MaxAutotune && !settings.tuning;
  Scheduled scheduled = schedule(trace, std::move(lowered), settings, tunes || !directory.empty());
  take_facts(scheduled, out);
  if (!out.broken) {
    finish(trace, settings, scheduled, {}, tunes, out);
    const std::vector<std::string> notes = notes_of(out.tuning, scheduled.schedule);
    out.autotuned.notes.insert(out.autotuned.notes.end(), notes.begin(), notes.end());
    if (entry) out.stored = filled(std::move(*entry), settings, scheduled, out);
  }
  out.plan_ms = since(start) - out.compile_ms;
  if (!directory.empty()) dump(directory, settings.name, trace, scheduled);
}

}  // namespace

ops::Lowered lower_as_scheduled(const record::Trace& trace, const CompileSettings& settings) {
  Tuning tuning;
  ops::Lowered lowered = lower(trace, settings);
  tune(trace, lowered, settings, tuning);
  return lowered;
}

Scheduled schedule(const record::Trace& trace, const CompileSettings& settings, bool keep_text) {
  return schedule(trace, lower(trace, settings), settings, keep_text);
}

ops::Lowered lower_as_tuned(const record::Trace& trace, CompileSettings settings) {
  if (!settings.tuning) settings.tuning.emplace();
  ops::Lowered lowered = lower(trace, settings);
  mark_short_factors(lowered, settings, *settings.tuning);
  apply_tuning(*settings.tuning, lowered);
  return lowered;
}

Tolerance tolerance_at_any_size(const record::Trace& trace, ops::Lowered lowered,
                                const CompileSettings& settings) {
  for (ir::Item& item : lowered.program.items)
    if (auto* call = std::get_if<ir::Extern>(&item);
        call != nullptr && settings.matmul == Matmul::Any &&
        passes::is_product_call(*call, settings.target))
      mark_as_loops(lowered, *call);
  return tolerance_of(trace, lowered);
}

ir::Schedule schedule(ops::Lowered lowered, const CompileSettings& settings,
                      std::vector<passes::PassRecord>* records) {
  mark_loops(lowered, settings);
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

Generated generate(const ir::Schedule& schedule, const ir::Target& target, const std::string& name,
                   const KernelCode& known) {
  Generated out;
  std::vector<ReadyKernel> kernels;
  for (const ir::Step& step : schedule.steps)
    if (const auto* kernel = std::get_if<ir::Kernel>(&step)) {
      kernels.push_back(
          ready(*kernel, target, name, known.empty() ? nullptr : known.at(kernels.size()), out));
      out.code.push_back(kernels.back().code.code);
    }
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

Built find_trace(const record::Trace& trace, const CompileSettings& settings) noexcept {
  const auto start = Clock::now();
  Built out;
  try {
    if (auto wanted = entry_for(trace, settings))
      found_any(trace, settings, std::move(*wanted), start, out);
  } catch (...) {  // compile_trace() says what is wrong
  }
  return out;
}

}  // namespace graft::runtime
