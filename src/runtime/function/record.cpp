// From the first call of an argument layout to its plan.
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>

#include "codegen/backend.h"
#include "record/gradients.h"
#include "record/recorder.h"
#include "record/trace.h"
#include "runtime/function/core_impl.h"
#include "runtime/process/log.h"
#include "runtime/process/machine_times.h"
#include "runtime/process/worker.h"
#include "runtime/proof/arguments.h"
#include "runtime/proof/captured_memory.h"
#include "runtime/region/differentiate.h"
#include "runtime/store/store.h"
#include "tensor/communication.h"

namespace graft::detail {

namespace {

constexpr const char* kSpent =
    "the function calls backward() and returns a result whose graph that freed; it is recorded "
    "again, and plans return it detached, as loss.detach() would";

/// libtorch's own words (test: Training.TheLossIsReturnedWithItsGraph).
bool is_spent(const std::string& error) {
  return error.find("backward through the graph a second time") != std::string::npos;
}

/// Without the stack that c10's errors carry.
std::string what(const std::exception& error) {
  const auto* c10_error = dynamic_cast<const c10::Error*>(&error);
  return c10_error == nullptr ? error.what() : c10_error->what_without_backtrace();
}

size_t requires_grad(const std::vector<at::Tensor>& results) {
  return static_cast<size_t>(std::count_if(results.begin(), results.end(), [](const at::Tensor& t) {
    return t.defined() && t.requires_grad();
  }));
}

bool communicates(const record::Trace& trace) {
  return std::any_of(trace.ops.begin(), trace.ops.end(), [](const record::OperatorRecord& op) {
    return graft::communicates(op.op.schema().name());
  });
}

}  // namespace

using runtime::Key;
using runtime::log;
using runtime::runtime_mutex;
using runtime::Topic;

void Core::Impl::miss(CallBase& call, const Key& key) {
  if (served_by_family(call, key)) return;
  if (too_many_layouts(key)) return run_eager(call);
  if (passes_known_leaf(call)) return run_eager(call);
  std::string difference = nearest_difference(key);
  if (!difference.empty() && stance() == Stance::FailOnRerecord)
    throw Error(options.name + ": no plan fits this call: " + difference +
                "; call it as before, or set_stance(Stance::Default) to let it be recorded again");
  if (may_become_family(key)) {
    runtime::Worker::instance().ensure_running();
    return run_eager(call);
  }
  std::shared_ptr<Entry> entry = admit(key);
  if (entry == nullptr) return run_eager(call);  // another thread records it
  if (!difference.empty()) {
    log(Topic::Recompiles, options.name + ": recorded again: " + difference);
    std::lock_guard lock(runtime_mutex());
    recorded_again_ = difference;
  }
  record(call, entry);
}

/// The entry's busy flag is ours, and given back here.
void Core::Impl::record(CallBase& call, const std::shared_ptr<Entry>& entry) {
  auto start = std::chrono::steady_clock::now();
  const runtime::HeldArguments held(call);
  const runtime::CapturedMemory captured(call);
  entry->graph_is_spent = entry->graph_is_spent || graph_is_spent_.load();
  const std::vector<at::Tensor> leaves = known_leaves();
  std::vector<at::Tensor> arguments = held.tensors();
  runtime::Differentiation backward(held.args(), entry->expected);
  record::Trace trace;
  bool ran = false, differentiates = false;
  int operators = 0;
  auto run = [&] {
    run_eager(call);
    ran = true;
    // What broke the record may have been said to other processes: not once more.
    differentiates =
        !record::gave_up() && !entry->graph_is_spent && backward.begin(call.result_tensors());
    if (!differentiates) return;
    for (const at::Tensor& gradient : backward.incoming())
      if (gradient.defined()) arguments.push_back(gradient);
    operators = record::add_new_arguments();
    backward.run();
  };
  auto outcome = [&] {
    return differentiates ? record::Outcome(backward.all_results(), /*graph_stays=*/true)
                          : record::Outcome(call.result_tensors(), /*graph_stays=*/false,
                                            entry->graph_is_spent);
  };
  try {
    trace = record::record(arguments, run, outcome, leaves);
    if (backward.refused()) trace.broken = backward.refused();
    if (differentiates && !trace.broken) backward.describe(trace, operators);
    if (differentiates && !trace.broken && communicates(trace))
      trace.broken =
          "processes speak to each other in a function whose backward comes after the call; let "
          "the function call backward() itself";
  } catch (const std::exception& error) {
    if (!ran) {
      forget(*entry);
      throw;
    }
    trace.broken = "the run could not be recorded: " + what(error);
    if (differentiates && is_spent(*trace.broken) && requires_grad(call.result_tensors()) == 1) {
      trace.broken = kSpent;
      entry->graph_is_spent = true;
      graph_is_spent_.store(true);
      --entry->attempts;  // the next record knows
    }
  } catch (...) {
    forget(*entry);
    throw;
  }
  if (auto why = held.changed(call)) trace.broken = std::move(why);
  if (!trace.broken) trace.broken = captured.changed();
  std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  {
    std::lock_guard lock(runtime_mutex());
    entry->record_ms = took.count();
    entry->verdict = Verdict::Compiling;
    make_newest(entry);
  }
  finish_record(call, held.args(), entry, std::move(trace));
  // Synchronous compilation may have broken as well.
  if (options.fullgraph && entry->tier.load(std::memory_order_acquire) == Tier::Eager)
    throw_if_broken(*entry);
}

/// A call that throws leaves no plan behind, and is no layout that was recorded.
void Core::Impl::forget(const Entry& entry) {
  replace(entry, nullptr);
  std::lock_guard lock(runtime_mutex());
  if (records_ > 0) --records_;  // reset() may have been called meanwhile
}

void Core::Impl::finish_record(CallBase& call, const FlatArgs& args,
                               const std::shared_ptr<Entry>& entry, record::Trace recorded) {
  auto trace = std::make_shared<record::Trace>(std::move(recorded));
  if (trace->backward_inside && look_behind(entry, args)) return;
  if ((!trace->broken || trace->lost_tensor) && trace->met_leaves) {
    constexpr int kMost = 8;
    if (++meetings < kMost) return meet(entry, *trace);
    if (!trace->broken)
      trace->broken =
          "the function uses the gradients of other captured tensors at each call; pass "
          "them as arguments";
  }
  if (!runtime::only_watch(trace->participants) && trace->backward && !trace->broken)
    trace->broken =
        "an optimizer makes its step in a function whose backward comes after the call; let the "
        "function call backward() itself";
  if (!trace->broken) entry->captured = runtime::CapturedSet(*trace, args);
  // From here on their owner alone keeps them; a trace is kept for explain().
  std::fill(trace->captured.begin(), trace->captured.end(), at::Tensor());
  if (trace->broken) return broke(entry, trace, with_next_step(*trace->broken));
  entry->participants = trace->participants;
  entry->steady.record(call, args);
  entry->prototype = call.result_prototype();
  entry->constants = call.result_words();
  start_compiling(entry, trace);
}

/// Recorded now, a captured leaf would count as the argument only.
bool Core::Impl::passes_known_leaf(const CallBase& call) const {
  for (const at::Tensor& leaf : known_leaves())
    for (const at::Tensor* argument : call.args.tensors)
      if (argument->is_same(leaf)) return true;
  return false;
}

std::vector<at::Tensor> Core::Impl::known_leaves() const {
  std::lock_guard lock(runtime_mutex());
  std::vector<at::Tensor> all;
  for (const runtime::WeakTensor& leaf : table.peek().leaves())
    if (at::Tensor tensor(leaf.lock()); tensor.defined()) all.push_back(std::move(tensor));
  return all;
}

/// Later calls look at these leaves' gradients before they run: they have other keys, so this entry
/// serves nobody.
void Core::Impl::meet(const std::shared_ptr<Entry>& entry, const record::Trace& trace) {
  std::vector<runtime::WeakTensor> leaves;
  for (const at::Tensor& known : known_leaves()) leaves.emplace_back(known.getIntrusivePtr());
  for (const record::Trace::Leaf& leaf : trace.leaves) {
    const at::Tensor& tensor = trace.captured[static_cast<size_t>(leaf.captured)];
    if (std::none_of(leaves.begin(), leaves.end(), [&](const runtime::WeakTensor& other) {
          return other._unsafe_get_target() == tensor.unsafeGetTensorImpl();
        }))
      leaves.emplace_back(tensor.getIntrusivePtr());
  }
  entry->tier.store(Tier::Eager, std::memory_order_release);
  entry->busy.store(false, std::memory_order_release);
  std::lock_guard lock(runtime_mutex());
  std::vector<std::shared_ptr<Entry>> entries = table.peek().entries();
  std::erase(entries, entry);
  const bool links = table.peek().links();
  table.replace(std::make_unique<Table>(std::move(entries), std::move(leaves), links));
  entry->reason = "recorded once more, to see what it does to the gradients of captured tensors";
}

/// A backward goes on behind arguments that are no leaves. Later calls look whether they are before
/// they run: if one was here, they have other keys, and this entry serves nobody.
bool Core::Impl::look_behind(const std::shared_ptr<Entry>& entry, const FlatArgs& args) {
  std::lock_guard lock(runtime_mutex());
  if (table.peek().links()) return false;
  const bool other_key =
      std::any_of(args.tensors.begin(), args.tensors.end(), [](const at::Tensor* tensor) {
        return tensor->defined() && record::is_computed(*tensor->unsafeGetTensorImpl());
      });
  std::vector<std::shared_ptr<Entry>> entries = table.peek().entries();
  if (other_key) {
    entry->tier.store(Tier::Eager, std::memory_order_release);
    entry->busy.store(false, std::memory_order_release);
    entry->reason = "recorded once more: it runs a backward, and an argument is no leaf";
    std::erase(entries, entry);
  }
  table.replace(std::make_unique<Table>(std::move(entries), table.peek().leaves(), true));
  return other_key;
}

void Core::Impl::broke(const std::shared_ptr<Entry>& entry,
                       std::shared_ptr<const record::Trace> trace, const std::string& why) {
  // What a first call alone does (a table made lazily) may be what broke the record: it gets a
  // second chance.
  bool again =
      ++entry->attempts < 2 && (!options.fullgraph || (entry->graph_is_spent && why == kSpent));
  {
    std::lock_guard lock(runtime_mutex());
    ++breaks_;
    entry->verdict = Verdict::Break;
    entry->reason = again ? why + " (the next call is recorded once more)" : why;
    if (newest_ == entry) entry->trace = std::move(trace);
  }
  entry->tier.store(again ? Tier::Retry : Tier::Eager, std::memory_order_release);
  entry->busy.store(false, std::memory_order_release);
  log(Topic::GraphBreaks, options.name + ": " + why);
  runtime::dump_report(runtime::trace_directory(), options.name, report().text());
}

namespace {

/// Not where what is captured changes from call to call, as in training, or no counter tells when
/// it does.
bool may_fold(const record::Trace& trace) {
  const bool trains =
      trace.backward || std::any_of(trace.gradient_of.begin(), trace.gradient_of.end(),
                                    [](const auto& leaf) { return leaf.has_value(); });
  return !trains &&
         std::none_of(trace.captured.begin(), trace.captured.end(),
                      [](const at::Tensor& t) { return t.defined() && t.is_inference(); });
}

}  // namespace

void Core::Impl::start_compiling(const std::shared_ptr<Entry>& entry,
                                 const std::shared_ptr<record::Trace>& trace) {
  entry->tier.store(Tier::Compiling, std::memory_order_release);
  entry->busy.store(false, std::memory_order_release);
  runtime::CompileSettings chosen = compile_settings();
  if (!may_fold(*trace)) chosen.most_folded_bytes = 0;
  if (options.sizes == Sizes::Family) {
    std::lock_guard lock(runtime_mutex());
    not_considered_.push_back(entry);
  }
  // What another process kept is there at once.
  if (options.cache && runtime::trace_directory().empty()) {
    runtime::Built found;
    runtime::Worker::run([&] { found = runtime::find_trace(*trace, chosen); });
    if (found.plan != nullptr) {
      adopt(entry, trace, chosen, std::move(found));
      // That lowers several traces: nothing that a call should wait for.
      if (options.sizes == Sizes::Family)
        enqueue([entry, trace](Impl& impl) { impl.consider_family(entry, trace); });
      return;
    }
  }
  enqueue([entry, trace, settings = std::move(chosen)](Impl& impl) mutable {
    settings.target.times = runtime::machine_times(settings.target.cpu);
    impl.compile(entry, trace, settings);
    impl.consider_family(entry, trace);
  });
}

/// Options::most_folded_bytes of -1 under MaxAutotune.
constexpr int64_t kMostFoldedBytes = int64_t{1} << 30;

runtime::CompileSettings Core::Impl::compile_settings() const {
  return {.name = options.name,
          .numerics = options.numerics,
          .skip_passes = options.skip_passes,
          .decisions = options.decisions,
          .target = codegen::host_target(at::get_num_threads()),
          .mode = options.mode,
          .keep = options.keep,
          .matmul = options.matmul,
          .cache = options.cache,
          .most_folded_bytes = options.most_folded_bytes >= 0      ? options.most_folded_bytes
                               : options.mode == Mode::MaxAutotune ? kMostFoldedBytes
                                                                   : 0,
          .ties = leaves_ties_.load(std::memory_order_relaxed),
          .short_factors = runtime::products_may_be_short()};
}

void Core::Impl::enqueue(std::function<void(Impl&)> job) {
  {
    std::lock_guard lock(runtime_mutex());
    ++compiling_;
  }
  auto run = [job = std::move(job)](Impl& impl) {
    job(impl);
    {
      std::lock_guard lock(runtime_mutex());
      --impl.compiling_;
    }
    runtime::runtime_changed().notify_all();
  };
  if (!options.async) return runtime::Worker::run([&] { run(*this); });
  // The function may be gone before its turn comes: then there is nothing to compile for.
  runtime::Worker::instance().enqueue([self = weak_from_this(), run = std::move(run)] {
    if (auto impl = self.lock()) run(*impl);
  });
}

void Core::Impl::compile(const std::shared_ptr<Entry>& entry,
                         const std::shared_ptr<record::Trace>& trace,
                         const runtime::CompileSettings& settings) {
  runtime::Built built = runtime::compile_trace(*trace, settings, runtime::trace_directory());
  const std::shared_ptr<const runtime::StoredEntry> kept =
      built.found || !options.cache ? nullptr : built.stored;
  adopt(entry, trace, settings, std::move(built));
  // A process may end before the plan is proven, and the next one is spared the compilation.
  if (kept == nullptr) return;
  runtime::share_stored(kept);
  runtime::keep_stored(*kept);
}

void Core::Impl::adopt(const std::shared_ptr<Entry>& entry,
                       const std::shared_ptr<record::Trace>& trace,
                       const runtime::CompileSettings& settings, runtime::Built built) {
  {
    std::lock_guard lock(runtime_mutex());
    entry->settings = settings;
    entry->settings.target.times = built.times;
    entry->settings.tuning = std::move(built.tuning);
    entry->settings.decisions = std::move(built.autotuned.decisions);
    entry->tuned = std::move(built.autotuned.notes);
    entry->operators = std::move(built.operators);
    entry->plan_ms = built.plan_ms;
    entry->compile_ms = built.compile_ms;
    kernels_compiled_ += built.kernels_compiled;
    if (newest_ == entry) entry->trace = trace;
  }
  if (built.broken) {
    entry->attempts = 2;  // what was recorded, not how the first call went
    broke(entry, trace, with_next_step(*built.broken));
  } else if (built.failed) {
    settle(*entry, Tier::Eager, Verdict::Failed, *built.failed);
  } else {
    entry->tolerance = built.tolerance;
    entry->tolerance.detaches = entry->graph_is_spent;
    entry->gives_up = std::move(built.gives_up);
    const bool has_modes =
        std::any_of(trace->participants.begin(), trace->participants.end(),
                    [](const auto& participant) { return participant->may_come_back(); });
    if (has_modes && entry->gives_up.empty())
      entry->gives_up = "a module trains that did not when it was recorded, or the reverse";
    entry->branches = has_modes || std::any_of(trace->ops.begin(), trace->ops.end(),
                                               [](const auto& op) { return op.tells_value; });
    entry->plan = std::move(built.plan);
    entry->region = std::move(built.region);
    entry->stored = std::move(built.stored);
    entry->found = built.found;
    entry->scales = std::move(built.scales);
    if (!entry->tolerance.exact) entry->approximated = trace;
    settle(*entry, Tier::Proving, Verdict::Proving,
           std::string(built.found ? "found, compiled before" : "compiled") +
               "; the next call is compared with eager");
  }
}

namespace {

std::string why_stale(const Entry& entry, const FlatArgs& args) {
  c10::SmallVector<at::Tensor, 4> captured(entry.captured.size());
  if (entry.captured.lock(args, captured.data()))  // and so those who take part are there
    for (const auto& participant : entry.participants)
      if (std::string why = participant->prepare(); !why.empty()) return why;
  return entry.captured.describe();
}

}  // namespace

void Core::Impl::replace_stale(CallBase& call, const Key& key,
                               const std::shared_ptr<Entry>& stale) {
  if (stale->captured.any_is_argument(call.args)) return run_eager(call);
  const bool adapts = stale->region && stale->region->feedback.ready();
  const std::string why =
      adapts ? "gradients come for other results, or in other layouts, than recorded"
             : why_stale(*stale, call.args);
  if (stance() == Stance::FailOnRerecord)
    throw Error(options.name + ": no plan fits this call: " + why +
                "; set_stance(Stance::Default) to let it be recorded again");
  if (stale->busy.exchange(true)) return run_eager(call);
  auto entry = std::make_shared<Entry>(key);
  entry->replaced = stale->replaced + 1;
  entry->adapted = stale->adapted + (adapts ? 1 : 0);
  entry->expected = adapts ? stale->region->feedback.seen() : stale->expected;
  entry->busy.store(true);
  entry->touch(clock.fetch_add(1, std::memory_order_relaxed) + 1);
  constexpr int kPatience = 8;
  bool hopeless = entry->replaced > kPatience;
  if (hopeless) entry->tier.store(Tier::Eager);
  replace(*stale, entry);
  log(Topic::Recompiles, options.name + ": recorded again: " + why);
  {
    std::lock_guard lock(runtime_mutex());
    records_ += !hopeless;
    if (hopeless) make_newest(entry);
  }
  if (!hopeless) return record(call, entry);
  settle(*entry, Tier::Eager, Verdict::Break,
         "what the function captures is replaced again and again (" + why +
             "); update it in place with copy_, or pass it as an argument");
  run_eager(call);
}

}  // namespace graft::detail
