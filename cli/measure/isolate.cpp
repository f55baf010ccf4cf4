#include "cli/measure/isolate.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <sched.h>

#include <CLI/CLI.hpp>

#include <memory>

#include "cli/frame/child.h"
#include "cli/frame/usage.h"
#include "cli/measure/measure_case.h"

namespace graft::cli {
namespace {

using nlohmann::json;

json spec_of(const Case& c, const std::string& variant, const BenchOptions& o) {
  const lab::MeasureOptions m = o.measuring();
  return {{"workload", c.workload->name},
          {"config", c.config},
          {"variant", variant},
          {"threads", at::get_num_threads()},
          {"seed", o.seed},
          {"small", o.small},
          {"min_time", m.min_time},
          {"max_time", m.max_time},
          {"precision", m.precision},
          {"min_samples", m.min_samples},
          {"warmup", m.warmup},
          {"numerics", static_cast<int>(o.compile.numerics)},
          {"mode", static_cast<int>(o.compile.mode)},
          {"float32_matmul", float32_matmul_name()}};
}

/// On the first `threads` CPUs of those that are allowed: threads do not wander in the middle of a
/// sample.
void pin(int threads) {
  cpu_set_t allowed, chosen;
  CPU_ZERO(&allowed);
  CPU_ZERO(&chosen);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&chosen) < threads; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) CPU_SET(cpu, &chosen);
  sched_setaffinity(0, sizeof chosen, &chosen);
}

void run_child(const std::string& text) {
  end_with_parent();
  const json spec = json::parse(text);
  BenchOptions o;
  o.seed = spec["seed"], o.small = spec["small"];
  o.min_time = spec["min_time"], o.max_time = spec["max_time"];
  o.precision = spec["precision"], o.min_samples = spec["min_samples"], o.warmup = spec["warmup"];
  o.compile.numerics = static_cast<Numerics>(spec["numerics"].get<int>());
  o.compile.mode = static_cast<Mode>(spec["mode"].get<int>());
  set_float32_matmul(spec["float32_matmul"]);
  o.variants = {spec["variant"]};
  pin(spec["threads"]);
  at::set_num_threads(spec["threads"]);
  const c10::NoGradGuard no_grad;
  const Case c{&workload_or_throw(spec["workload"]), spec["config"]};
  lab::Run run;
  run.context = json::object();
  try {
    run.rows.push_back(measure_alone(c, spec["variant"], o));
  } catch (const UsageError&) {
    throw;
  } catch (const std::exception& error) {
    lab::Row row;
    row.status = lab::Status::Failed;
    row.error = std::string(error.what()).substr(0, std::string(error.what()).find('\n'));
    run.rows.push_back(row);
  }
  answer_parent(lab::to_json(run).dump());
}

}  // namespace

lab::Row measure_in_process(const Case& c, const std::string& variant,
                            const BenchOptions& options) {
  const std::string spec = spec_of(c, variant, options).dump();
  lab::Row row;
  row.name = c.workload->name;
  row.config = c.config;
  row.variant = variant;
  row.threads = at::get_num_threads();
  row.isolated = true;
  const ChildEnd ended = run_child_process("bench-child", spec, options.timeout);
  if (ended.timeout) {
    row.status = lab::Status::Timeout;
    row.error = "took longer than " + std::to_string(static_cast<int>(options.timeout)) +
                " s; give it more with --timeout";
  } else if (ended.signal != 0) {
    row.status = lab::Status::Crashed;
    row.error = "ended by " + ended.signal_text();
  } else if (ended.code != 0) {
    row.status = lab::Status::Failed;
    row.error = "its process ended with code " + std::to_string(ended.code);
  } else {
    try {
      const lab::Run run = lab::run_from_json(json::parse(ended.answer), "a variant's process");
      const lab::Row& got = run.rows.at(0);
      if (got.status == lab::Status::Ok) return got;
      row.status = got.status, row.error = got.error;
    } catch (const std::exception&) {
      row.status = lab::Status::Failed;
      row.error = "its process ended without a result; its main must return graft::run_command()";
    }
  }
  return row;
}

void add_bench_child(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench-child", "One variant, for 'bench --isolate'");
  command->group("");  // not for people
  const auto spec = std::make_shared<std::string>();
  command->add_option("spec", *spec)->required();
  command->callback([spec] { run_child(*spec); });
}

}  // namespace graft::cli
