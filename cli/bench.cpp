#include "cli/bench.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <ctime>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>

#include "cli/bench_result.h"
#include "cli/peers.h"
#include "cli/usage.h"
#include "cli/version.h"
#include "lab/compare.h"
#include "lab/env.h"
#include "lab/progress.h"
#include "lab/table.h"
#include "lab/timer.h"
#include "workloads/workload.h"

namespace graft::cli {
namespace {

using workloads::Call;
using workloads::Instance;
using workloads::Tensors;
using workloads::Workload;

const std::vector<std::string> kVariants{"eager", "eager_pool", "graft", "hand"};
constexpr double kMinTime = 1.0, kQuickMinTime = 0.15;

struct BenchOptions {
  std::string filter;
  int threads = 0;  // 0: ATen's choice
  bool quick = false, small = false, no_color = false, quiet = false, peers = false;
  double min_time = 0;  // 0: kMinTime, or kQuickMinTime
  uint64_t seed = 0;
  std::string json, python = "python3";
  std::vector<std::string> variants = kVariants;
  Options compile;

  double seconds() const { return min_time > 0 ? min_time : quick ? kQuickMinTime : kMinTime; }
  bool wants(const std::string& variant) const {
    return std::find(variants.begin(), variants.end(), variant) != variants.end();
  }
};

std::vector<const Workload*> chosen_workloads(const std::string& filter) {
  std::vector<const Workload*> out;
  std::regex pattern;
  try {
    pattern.assign(filter);
  } catch (const std::regex_error& error) {
    throw UsageError("--filter: came '" + filter + "', which is not a regular expression (" +
                     error.what() +
                     "); expected one such as 'rope|softmax'. 'graft list' shows the names.");
  }
  for (const Workload& workload : workloads::workloads()) {
    if (std::regex_search(workload.name, pattern)) out.push_back(&workload);
  }
  if (!out.empty()) return out;
  throw UsageError("--filter: no workload matches '" + filter + "'; " +
                   did_you_mean(filter, workload_names()) + " 'graft list' shows all.");
}

void check(const BenchOptions& options) {
  for (const std::string& variant : options.variants) {
    if (std::find(kVariants.begin(), kVariants.end(), variant) != kVariants.end()) continue;
    throw UsageError("--variants: came '" + variant + "'; " + did_you_mean(variant, kVariants) +
                     " Several are joined by commas; torch.compile runs with --peers.");
  }
  if (!options.json.empty()) check_writable(options.json);
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

/// A busy machine shows in every number; better said before the run than guessed after it.
void warn_if_busy(double load, int cpus) {
  if (load < 0.5 * cpus) return;
  std::cerr << "graft: the machine is busy (load " << lab::number(load, 2) << " on " << cpus
            << " CPUs): timings will be unsteady; stop other programs first.\n";
}

/// Sets beside eager's outputs those of each variant; where they differ, all beside fp64's.
void compare_outputs(const Instance& instance, const std::vector<Call>& calls,
                     WorkloadResult& result) {
  const Tensors expected = instance.eager.outputs();
  bool all_bitwise = true;
  for (size_t i = 0; i < calls.size(); ++i) {
    const lab::Comparison c = lab::compare(expected, calls[i].outputs());
    result.variants[i].bitwise = c.bitwise;
    result.variants[i].max_abs_diff = c.max_abs_diff;
    all_bitwise &= c.bitwise;
  }
  if (all_bitwise) return;
  const Tensors reference = instance.fp64();
  for (size_t i = 0; i < calls.size(); ++i) {
    result.variants[i].fp64_error = lab::relative_error(calls[i].outputs(), reference);
  }
}

/// Graft with nothing between its calls, as a peer's process calls its own: other variants in turns
/// leave it cold caches.
void measure_alone(const std::vector<Call>& calls, const lab::MeasureOptions& measure,
                   WorkloadResult& result) {
  const VariantResult* graft = result.find("graft");
  if (graft == nullptr) return;
  VariantResult alone = *graft;
  alone.variant = "graft_alone";
  const Call& call = calls[static_cast<size_t>(graft - result.variants.data())];
  alone.samples_ms = std::move(lab::measure({{alone.variant, call.run}}, measure)[0].ms);
  result.variants.push_back(std::move(alone));
}

WorkloadResult run_workload(const Workload& workload, const BenchOptions& options,
                            lab::Progress* progress) {
  const auto say = [&](double done, const std::string& what) {
    if (progress != nullptr) progress->at(done, what);
  };
  say(0, "making inputs");
  const Instance instance = workload.make({.seed = options.seed, .small = options.small});
  WorkloadResult result{workload.name, {}};
  std::vector<Call> calls;
  const auto add = [&](const std::string& name, const Call& call) -> VariantResult& {
    calls.push_back(call);
    result.variants.emplace_back();
    result.variants.back().variant = name;
    return result.variants.back();
  };
  if (options.wants("eager")) add("eager", instance.eager);
  if (options.wants("eager_pool")) add("eager_pool", in_pool(instance.eager));
  if (options.wants("graft")) {
    say(0, "compiling");
    Options compile = options.compile;
    compile.name = workload.name;
    const workloads::CompiledCall compiled = instance.compile(compile);
    VariantResult& row = add("graft", compiled);
    row.first_call_ms = settle(compiled);
    const Report report = compiled.report();
    row.compile_ms = report.compile_ms;
    row.kernels = report.kernels;
    row.verdict = to_string(report.verdict);
    row.reason = report.reason;
  }
  if (options.wants("hand") && instance.hand) add("hand", instance.hand);

  say(0, "comparing");
  compare_outputs(instance, calls, result);
  std::vector<lab::TimedVariant> timed;
  for (size_t i = 0; i < calls.size(); ++i)
    timed.push_back({result.variants[i].variant, calls[i].run});
  lab::MeasureOptions measure{.min_time = options.seconds(), .min_samples = options.quick ? 5 : 10};
  measure.progress = say;
  std::vector<lab::Samples> samples = lab::measure(timed, measure);
  for (size_t i = 0; i < samples.size(); ++i)
    result.variants[i].samples_ms = std::move(samples[i].ms);
  if (options.peers) measure_alone(calls, measure, result);
  return result;
}

nlohmann::json context_of(const BenchOptions& options, const Peer* peer) {
  nlohmann::json context = lab::to_json(lab::read_environment(kVersion));
  char now[32];
  const std::time_t seconds = std::time(nullptr);
  std::strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&seconds));
  context["date"] = now;
  context["min_time"] = options.seconds();
  context["seed"] = options.seed;
  context["small"] = options.small;
  context["numerics"] = options.compile.numerics == Numerics::Fast ? "fast" : "exact";
  if (peer != nullptr) context["peer_torch"] = peer->version();
  return context;
}

void bench(const BenchOptions& options) {
  const std::vector<const Workload*> chosen = chosen_workloads(options.filter);
  check(options);
  if (options.threads > 0) at::set_num_threads(options.threads);
  const int threads = at::get_num_threads();
  const c10::NoGradGuard no_grad;  // inference, as the peers measure it
  std::unique_ptr<Peer> peer;
  if (options.peers)
    peer = std::make_unique<Peer>(PeerOptions{options.python, threads, options.seconds()});
  const nlohmann::json context =
      context_of(options, peer.get());  // before the run: the load is not ours yet
  if (!options.quiet) warn_if_busy(context["load"], context["logical_cpus"]);

  std::unique_ptr<lab::Progress> progress;
  const bool terminal = isatty(STDERR_FILENO) == 1;
  if (!options.quiet)
    progress = std::make_unique<lab::Progress>(std::cerr, terminal, chosen.size());
  std::vector<WorkloadResult> results;
  for (const Workload* workload : chosen) {
    if (progress) progress->begin(workload->name);
    results.push_back(run_workload(*workload, options, progress.get()));
    pool_trim();  // the next workload has other sizes
    if (peer) {
      if (progress) progress->at(1, "torch.compile");
      results.back().variants.push_back(peer->measure(workload->name));
    }
  }
  progress.reset();
  print(std::cout, results, !options.no_color && lab::colour_wanted(STDOUT_FILENO));
  if (!options.json.empty())
    write_file(options.json, to_json(results, threads, context).dump(1) + '\n');
}

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench", "Measure the workloads, all variants in turns");
  const auto o = std::make_shared<BenchOptions>();
  command->add_option("--filter", o->filter,
                      "Only workloads whose name has a match of this regular expression");
  command->add_option("--threads", o->threads, "ATen's threads")->check(CLI::Range(1, 1024));
  command->add_flag("--quick", o->quick, "A first look: shorter samples, wider intervals");
  command->add_flag("--small", o->small, "Tiny inputs: to try the command, not to measure");
  command
      ->add_option("--min-time", o->min_time, "Seconds of samples a variant (1; 0.15 with --quick)")
      ->check(CLI::Range(0.001, 3600.0));
  command
      ->add_option("--variants", o->variants, "Of eager, eager_pool, graft, hand; joined by commas")
      ->delimiter(',');
  command->add_option("--seed", o->seed, "Of the inputs (0)");
  command->add_option("--json", o->json, "Write all samples to this file");
  command->add_flag("--peers", o->peers, "Measure torch.compile too, in Python");
  command->add_option("--python", o->python, "The Python that has torch (python3)");
  command->add_flag("--no-color", o->no_color,
                    "Plain text on a terminal too; NO_COLOR does the same");
  command->add_flag("--quiet", o->quiet, "No progress");
  add_compile_flags(*command, o->compile);
  command->callback([o] { bench(*o); });
}

}  // namespace graft::cli
