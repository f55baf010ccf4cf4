#include "cli/inspect/memory.h"

#include "cli/frame/context.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <graft/pool.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/frame/usage.h"
#include "cli/inspect/memory_findings.h"
#include "formats/files.h"
#include "graft/workload.h"
#include "lab/memory/memory.h"
#include "lab/memory/sentinel.h"
#include "lab/memory/storage.h"
#include "lab/run.h"
#include "lab/table.h"

namespace graft::cli {
namespace {

constexpr int kCalls = 3;

struct MemoryChoice {
  std::string workload, json, svg, html;
  bool quick = false, small = false, sentinel_only = false, no_color = false;
  int threads = 0;  // 0: ATen's choice
  uint64_t seed = 0;
  std::vector<std::string> axes;  // "rows=64"
  Options compile;

  bool colour() const { return !no_color && lab::colour_wanted(STDOUT_FILENO); }
};

void check(const MemoryChoice& choice) {
  check_writable("--json", choice.json);
  check_writable("--svg", choice.svg);
  check_writable("--html", choice.html);
  const bool picture = !choice.svg.empty() || !choice.html.empty();
  if (choice.sentinel_only && (picture || !choice.workload.empty())) {
    throw UsageError(
        "--sentinel checks the measuring itself: it takes neither a workload nor --svg or --html. "
        "Leave it out to measure a workload; the sentinel runs before it in any case.");
  }
  if (!choice.sentinel_only && choice.workload.empty()) {
    throw UsageError(
        "memory: expected a workload, one of 'graft list', or --sentinel to check only whether "
        "memory is measured right.");
  }
}

/// Both allocators that tensors may come from; throws if either is not measured right.
nlohmann::json run_sentinels() {
  nlohmann::json out;
  const auto run = [&](const char* allocator) {
    const lab::Sentinel seen = lab::memory_sentinel();
    std::cout << seen.text() << " (" << allocator << ")\n";
    if (!seen.passed) {
      throw std::runtime_error(std::string("no memory figure of this run can be believed: with ") +
                               allocator + ", the " + seen.text() +
                               ". Report it with the output of 'graft env'.");
    }
    out.push_back(lab::to_json(seen));
    out.back()["allocator"] = allocator;
  };
  run("c10's allocator");
  {
    const PoolGuard pool;
    run("graft's pool");
  }
  pool_trim();
  return out;
}

/// Code and caches are warm, the pool is empty: what it takes from the system shows as growth.
lab::MemoryReport watch(const std::function<void()>& run, int calls, const std::string& region) {
  run();
  pool_trim();
  lab::MemoryTracker tracker({.cached = [] { return pool_stats().cached_bytes; }});
  for (int i = 0; i < calls; ++i) {
    const lab::MemoryRegion named(region);
    run();
  }
  tracker.stop();
  return tracker.report();
}

MemoryFindings measure(const MemoryChoice& choice) {
  const workloads::Workload& workload = workload_or_throw(choice.workload);
  MemoryFindings out;
  const workloads::Options inputs{
      .seed = choice.seed, .small = choice.small, .config = axis_values(choice.axes)};
  out.workload = workload.name;
  out.config = inputs.config;
  out.calls = choice.quick ? 1 : kCalls;
  std::optional<workloads::Instance> instance;
  {
    lab::MemoryTracker tracker;
    instance = workload.make(inputs);
    tracker.stop();
    out.inputs = tracker.report();
  }
  Options options = choice.compile;
  options.name = workload.name;
  const workloads::CompiledCall compiled = instance->compile(options);
  settle(compiled);
  const Report report = compiled.report();
  out.verdict = to_string(report.verdict);
  out.reason = report.reason;

  std::vector<std::pair<std::string, at::Tensor>> outputs;
  const auto add = [&](const std::string& name, const workloads::Call& call) {
    out.variants.push_back({name, watch(call.run, out.calls, name)});
    int number = 0;
    for (const at::Tensor& tensor : call.outputs())
      outputs.emplace_back(name + " output " + std::to_string(number++), tensor);
  };
  add("eager", instance->eager);
  add("graft", compiled);
  out.proof = lab::storage_proof(outputs);
  return out;
}

void memory(const MemoryChoice& choice) {
  check(choice);
  if (!choice.sentinel_only) workload_or_throw(choice.workload);
  if (choice.threads > 0) at::set_num_threads(choice.threads);
  const c10::NoGradGuard no_grad;  // as bench
  nlohmann::json json{{"schema_version", lab::kSchemaVersion},
                      {"context", run_context()},
                      {"sentinel", run_sentinels()}};
  if (!choice.sentinel_only) {
    const MemoryFindings found = measure(choice);
    std::cout << '\n';
    print(std::cout, found, choice.colour());
    json.update(to_json(found));
    if (!choice.svg.empty()) formats::write_file(choice.svg, picture(found));
    if (!choice.html.empty()) formats::write_file(choice.html, page(found));
  }
  if (!choice.json.empty()) formats::write_file(choice.json, json.dump(1) + '\n');
}

}  // namespace

void add_memory(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("memory", "Show what a workload allocates, eager and compiled");
  const auto choice = std::make_shared<MemoryChoice>();
  command->add_option("workload", choice->workload, "One of 'graft list'");
  command->add_flag("--sentinel", choice->sentinel_only,
                    "Only check that an allocation of known size is measured right");
  command->add_option("--json", choice->json, "Write all figures and timelines to this file");
  command->add_option("--svg", choice->svg, "Write the timelines as a picture");
  command->add_option("--html", choice->html, "The picture as a page");
  command->add_flag("--quick", choice->quick, "Watch one call of each variant instead of three");
  command->add_flag("--small", choice->small, "Tiny inputs: to try the command, not to measure");
  command->add_option("--threads", choice->threads, "ATen's threads")->check(CLI::Range(1, 1024));
  add_axis_flag(*command, choice->axes);
  command->add_option("--seed", choice->seed, "Of the inputs (0)");
  command->add_flag("--no-color", choice->no_color,
                    "Plain text on a terminal too; NO_COLOR does the same");
  add_compile_flags(*command, choice->compile);
  command->callback([choice] { memory(*choice); });
}

}  // namespace graft::cli
