#include "cli/measure/measure_case.h"

#include <ATen/Parallel.h>
#include <graft/pool.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "cli/frame/usage.h"
#include "lab/accuracy/compare.h"
#include "lab/device.h"
#include "lab/functions.h"
#include "lab/memory/available.h"
#include "lab/words.h"

namespace graft::cli {
namespace {

using workloads::Call;
using workloads::Instance;
using workloads::Tensors;

/// fn(the case's options)
template <class Fn>
auto with_options(const Case& c, const BenchOptions& options, Fn fn) {
  try {
    return fn(workloads::Options{.seed = options.seed, .small = options.small, .config = c.config});
  } catch (const Error& error) {
    throw UsageError(c.name() + ": " + error.what());
  }
}
Instance instance_of(const Case& c, const BenchOptions& options) {
  return with_options(c, options, [&](const auto& o) { return c.workload->make(o); });
}

Call in_pool(const Call& call) {
  return {[run = call.run] {
            const PoolGuard pool;
            run();
          },
          [outputs = call.outputs] {
            const PoolGuard pool;
            return outputs();
          }};
}

std::vector<std::string> present(const Instance& instance, const BenchOptions& options) {
  std::vector<std::string> out;
  for (const std::string& variant : options.variants) {
    if (variant == "others") {
      for (const auto& [name, call] : instance.others) out.push_back(name);
    } else if (variant == "cuts") {
      for (const auto& [name, compile] : instance.cuts) out.push_back(name);
    } else if (variant != "hand" || instance.hand) {
      out.push_back(variant);
    }
  }
  return out;
}

Options compile_options(const Case& c, const std::string& variant, const BenchOptions& options) {
  Options out = options.compile;
  out.name = c.name();
  if (variant == "graft_fast") out.numerics = Numerics::Fast;
  if (variant == "graft_eager_bits") out.matmul = Matmul::EagerBits;
  if (variant == "graft_max_autotune") out.mode = Mode::MaxAutotune;
  if (variant == "graft_reduce_overhead") out.mode = Mode::ReduceOverhead;
  return out;
}

bool is_compiled(const std::string& variant) {
  return variant.starts_with("graft");
}

/// An estimate of the bytes that measuring it needs; 0: not known.
double need_of(const Case& c, const BenchOptions& options, bool fp64) {
  return with_options(c, options, [&](auto o) {
    o.fp64 = fp64;
    return c.workload->peak(o);
  });
}
bool fits(double need) {
  const auto free = static_cast<double>(lab::available_memory());
  return need <= 0 || free < 0 || need <= free;
}

/// A variant, ready to be timed, and what is known of it before.
struct Prepared {
  lab::Row row;
  Call call;
};

void fail(lab::Row& row, const std::exception& error) {
  row.status = lab::Status::Failed;
  row.error = error.what();
  if (const size_t end = row.error.find('\n'); end != std::string::npos) row.error.resize(end);
}

/// What one variant throws is its row's, not the run's.
template <class Fn>
void attempt(Prepared& p, Fn fn) {
  if (p.row.status != lab::Status::Ok) return;
  try {
    fn();
  } catch (const std::exception& error) {
    fail(p.row, error);
  }
}

Prepared begin(const Case& c, const Instance& instance, const std::string& variant) {
  Prepared out;
  out.row.name = c.workload->name;
  out.row.config = c.config;
  out.row.variant = variant;
  out.row.threads = at::get_num_threads();
  out.row.work = {
      .flops = instance.flops,
      .bytes = instance.bytes > 0 ? instance.bytes : static_cast<double>(instance.input_bytes),
      .samples = instance.samples,
      .tokens = instance.tokens};
  return out;
}

/// Makes the call: compiles what is compiled.
void prepare(const Case& c, const Instance& instance, const BenchOptions& options, Prepared& out) {
  const std::string& variant = out.row.variant;
  if (is_compiled(variant)) {
    const auto cut = std::find_if(instance.cuts.begin(), instance.cuts.end(),
                                  [&](const auto& named) { return named.first == variant; });
    const auto& compile = cut == instance.cuts.end() ? instance.compile : cut->second;
    const auto compiled = compile(compile_options(c, variant, options));
    out.row.warmup_ms = lab::time_once_ms([&] { out.row.first_call_ms = settle(compiled); });
    const Report report = compiled.report();
    out.row.compile_ms = report.compile_ms;
    out.row.kernels = report.kernels;
    out.row.verdict = to_string(report.verdict);
    out.row.reason = report.reason;
    out.call = compiled;
  } else if (variant == "eager") {
    out.call = instance.eager;
  } else if (variant == "eager_pool") {
    out.call = in_pool(instance.eager);
  } else if (variant == "hand") {
    out.call = instance.hand;
  } else {
    for (const auto& [name, call] : instance.others)
      if (name == variant) out.call = call;
  }
}

double bytes_of(const Tensors& tensors) {
  double sum = 0;
  for (const at::Tensor& t : tensors)
    if (t.defined()) sum += static_cast<double>(t.nbytes());
  return sum;
}

/// Outputs beside eager's; where they differ, beside fp64's as well if there is memory. Where the
/// instance leaves the bytes to be counted, outputs are added to them.
void compare(const Instance& instance, const Tensors& expected, const Tensors& outputs,
             lab::Row& row) {
  const lab::Comparison c = lab::compare(expected, outputs);
  row.bitwise = c.bitwise;
  row.max_abs_diff = c.max_abs_diff;
  if (instance.bytes <= 0) row.work.bytes += bytes_of(outputs);
}

void compare_all(const Instance& instance, bool with_fp64, std::vector<Prepared>& prepared) {
  std::optional<Tensors> expected;
  try {
    expected = instance.eager.outputs();
  } catch (const std::exception&) {
    // Eager's own row says so, where there is one.
  }
  bool all_bitwise = true;
  for (Prepared& p : prepared)
    attempt(p, [&] {
      const Tensors outputs = p.call.outputs();
      if (!expected) return;
      compare(instance, *expected, outputs, p.row);
      all_bitwise = all_bitwise && *p.row.bitwise;
    });
  if (all_bitwise || !with_fp64) return;
  const Tensors reference = instance.fp64();
  for (Prepared& p : prepared)
    attempt(p, [&] { p.row.fp64_error = lab::relative_error(p.call.outputs(), reference); });
}

/// After the timing, which a tracker would slow down. What others left in the pool is given back
/// first.
void measure_memory(Prepared& p) {
  pool_trim();
  const bool pooled = is_compiled(p.row.variant) || p.row.variant == "eager_pool";
  const auto cached = [] { return pool_stats().cached_bytes; };
  p.row.memory =
      lab::cpu_device(pooled ? std::function<int64_t()>(cached) : nullptr)->memory_of(p.call.run);
}

void take(lab::Samples samples, lab::Row& row) {
  row.samples_ms = std::move(samples.ms);
  row.batch = samples.batch;
  row.warmup_calls = samples.warmup_calls;
  row.steady = samples.steady;
}

/// Eager and graft with nothing between their calls, as a peer's process calls its own: other
/// variants in turns leave them cold caches.
void measure_without_others(const lab::MeasureOptions& measuring, std::vector<Prepared>& prepared) {
  const size_t in_turns = prepared.size();
  for (size_t i = 0; i < in_turns; ++i) {
    const lab::Row& row = prepared[i].row;
    if ((row.variant != "eager" && row.variant != "graft") || row.status != lab::Status::Ok)
      continue;
    Prepared alone = prepared[i];
    alone.row.variant += "_alone";
    alone.row.isolated = true;
    take(std::move(lab::measure({{alone.row.variant, alone.call.run}}, measuring)[0]), alone.row);
    prepared.push_back(std::move(alone));
  }
}

}  // namespace

std::vector<std::string> variants_of(const Case& c, const BenchOptions& options) {
  return present(instance_of(c, options), options);
}

std::string lacks_memory(const Case& c, const BenchOptions& options) {
  const double need = need_of(c, options, /*fp64=*/false);
  if (fits(need)) return {};
  return "eager needs about " + lab::bytes_text(need) + " of memory, " +
         lab::bytes_text(static_cast<double>(lab::available_memory())) + " are free";
}

std::vector<lab::Row> measure_in_turns(const Case& c, const BenchOptions& options, const Say& say) {
  say(0, "making inputs");
  const Instance instance = instance_of(c, options);
  std::vector<Prepared> prepared;
  for (const std::string& variant : present(instance, options)) {
    if (is_compiled(variant)) say(0, "compiling");
    Prepared& p = prepared.emplace_back(begin(c, instance, variant));
    attempt(p, [&] { prepare(c, instance, options, p); });
  }
  say(0, "comparing");
  compare_all(instance, fits(need_of(c, options, /*fp64=*/true)), prepared);
  std::vector<lab::TimedVariant> timed;
  for (const Prepared& p : prepared)
    if (p.row.status == lab::Status::Ok) timed.push_back({p.row.variant, p.call.run});
  lab::MeasureOptions measuring = options.measuring();
  measuring.progress = say;
  std::vector<lab::Samples> samples = lab::measure(timed, measuring);
  size_t next = 0;
  for (Prepared& p : prepared)
    if (p.row.status == lab::Status::Ok) take(std::move(samples[next++]), p.row);
  for (Prepared& p : prepared) attempt(p, [&] { measure_memory(p); });
  std::optional<double> functions;
  for (Prepared& p : prepared)
    attempt(p, [&] {
      if (!functions) functions = lab::functions_of(instance.eager.run);
      p.row.work.functions = *functions;
    });
  if (options.peers || !options.own_peers.empty()) measure_without_others(measuring, prepared);
  std::vector<lab::Row> rows;
  for (Prepared& p : prepared) rows.push_back(std::move(p.row));
  return rows;
}

lab::Row measure_alone(const Case& c, const std::string& variant, const BenchOptions& options) {
  const Instance instance = instance_of(c, options);
  Prepared p = begin(c, instance, variant);
  prepare(c, instance, options, p);
  p.row.isolated = true;
  if (!p.row.first_call_ms) p.row.first_call_ms = lab::time_once_ms(p.call.run);
  take(std::move(lab::measure({{variant, p.call.run}}, options.measuring())[0]), p.row);
  measure_memory(p);
  // After the timing: eager's run would have warmed what this one shares with it.
  const Tensors outputs = p.call.outputs();
  compare(instance, instance.eager.outputs(), outputs, p.row);
  p.row.work.functions = lab::functions_of(instance.eager.run);
  if (!*p.row.bitwise) p.row.fp64_error = lab::relative_error(outputs, instance.fp64());
  return std::move(p.row);
}

}  // namespace graft::cli
