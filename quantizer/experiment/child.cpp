#include "quantizer/experiment/child.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <graft/pool.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <iostream>
#include <memory>
#include <stdexcept>

#include "cli/frame/child.h"
#include "cli/frame/errors.h"
#include "lab/memory/sentinel.h"
#include "lab/progress.h"
#include "quantizer/experiment/measure.h"
#include "quantizer/experiment/numerics.h"

namespace graft::cli {
namespace {

using nlohmann::json;

/// Both allocators that tensors may come from.
json run_child_sentinels() {
  json out = {{"passed", true}, {"sentinels", json::array()}};
  const auto run = [&](const char* allocator) {
    const lab::Sentinel seen = lab::memory_sentinel();
    json one = lab::to_json(seen);
    one["allocator"] = allocator;
    one["text"] = seen.text();
    out["sentinels"].push_back(one);
    if (!seen.passed) out["passed"] = false;
  };
  run("c10's allocator");
  const PoolGuard pool;
  run("graft's pool");
  return out;
}

json run_here(const GptqStep& step) {
  if (step.what == "memory-sentinel") return run_child_sentinels();
  const GptqScenario scenario = make_gptq_scenario(step.choice);
  const bool baseline = step.what == "baseline", compiled = step.what == "compiled";
  lab::Progress progress(std::cerr, ::isatty(STDERR_FILENO) == 1,
                         baseline   ? gptq_baseline_steps(step.runs)
                         : compiled ? gptq_compiled_steps(step.runs)
                                    : gptq_numerics_steps(scenario.run_decoder != nullptr));
  if (baseline) return measure_gptq_baseline(scenario, step.runs, progress);
  if (compiled) return measure_gptq_compiled(scenario, step.runs, progress);
  return check_gptq_numerics(step.choice, scenario, progress);
}

void run_in_child(const std::string& text) {
  end_with_parent();
  const json spec = json::parse(text);
  const GptqStep step{spec.at("what"), gptq_choice_from(spec.at("choice")), spec.at("runs"),
                      spec.at("threads")};
  if (step.threads > 0) at::set_num_threads(step.threads);
  const c10::NoGradGuard no_grad;
  json result;
  try {
    result["found"] = run_here(step);
  } catch (const std::exception& error) {
    result["error"] = error_text(error);
  }
  answer_parent(result.dump());
}

}  // namespace

json run_gptq_step(const GptqStep& step) {
  const std::string spec = json{
      {"what", step.what},
      {"choice", to_json(step.choice)},
      {"runs", step.runs},
      {"threads",
       step.threads}}.dump();
  const ChildEnd ended = run_child_process("gptq-child", spec);
  const std::string what = "gptq, the process of '" + step.what + "' ";
  if (ended.signal != 0)
    throw std::runtime_error(what + "was ended by " + ended.signal_text() +
                             "; if memory ran out, give fewer --layers or --tokens");
  const json answer = json::parse(ended.answer, nullptr, /*allow_exceptions=*/false);
  if (ended.code != 0 || !answer.is_object())
    throw std::runtime_error(what + "ended with code " + std::to_string(ended.code) +
                             " and without a result; its main must return graft::run_command()");
  if (answer.contains("error"))
    throw std::runtime_error("gptq, " + step.what + ": " + answer["error"].get<std::string>());
  return answer.at("found");
}

void add_gptq_child(CLI::App& app) {
  CLI::App* command = app.add_subcommand("gptq-child", "One step, for 'gptq'");
  command->group("");  // not for people
  const auto spec = std::make_shared<std::string>();
  command->add_option("spec", *spec)->required();
  command->callback([spec] { run_in_child(*spec); });
}

}  // namespace graft::cli
