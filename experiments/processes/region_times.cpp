// Regions, eager and compiled, in a process whose environment is its own.
#include <graft/workload.h>

#include "cli/frame/usage.h"
#include "experiments/processes/workers.h"
#include "lab/timer.h"

namespace graft::experiments {
namespace {

using nlohmann::json;

constexpr const char* kRegions[] = {"rope_f32", "rmsnorm_bf16", "swiglu_f32", "softmax_f32"};

}  // namespace

json region_times(systems::Group&, const json& asked) {
  json out{{"regions", json::array()}};
  for (const char* name : kRegions) {
    workloads::Options options;
    options.small = asked.at("small");
    options.fp64 = false;
    const workloads::Instance instance = workloads::find_workload(name)->make(options);
    graft::Options compile_options;
    compile_options.cache = false;
    const workloads::CompiledCall compiled = instance.compile(compile_options);
    cli::settle(compiled);
    const int trials = asked.at("trials");
    const auto samples =
        lab::measure({{"eager", [&] { instance.eager.run(); }}, {"graft", [&] { compiled.run(); }}},
                     {.min_time = 0.05, .min_samples = trials});
    out["regions"].push_back({{"name", name},
                              {"eager", samples[0].ms},
                              {"graft", samples[1].ms},
                              {"verdict", to_string(compiled.report().verdict)}});
  }
  return out;
}

}  // namespace graft::experiments
