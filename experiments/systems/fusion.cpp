// Neural operator fusion: attention, feed-forward layer and norms as one unit.
#include <ATen/ATen.h>
#include <graft/graft.h>

#include "cli/frame/usage.h"
#include "experiments/systems/claim.h"
#include "lab/accuracy/compare.h"
#include "lab/words.h"
#include "workloads/systems/llama.h"

namespace graft::experiments {
namespace {

namespace llama = workloads::llama;
using at::Tensor;

void whole_layer(Trial& trial) {
  struct Size {
    const char *hidden, *heads, *intermediate, *sequence, *dtype;
  };
  std::vector<Size> sizes{{"512", "8", "1408", "256", "f32"}};
  if (trial.small()) sizes = {{"32", "2", "48", "16", "f32"}};
  if (!trial.quick())
    sizes = {{"512", "8", "1408", "512", "f32"},
             {"1024", "8", "2816", "512", "f32"},
             {"1024", "8", "2816", "512", "bf16"}};
  for (const Size& size : sizes) {
    workloads::Options options;
    for (const workloads::Axis& axis : workloads::find_workload("llama_forward")->axes)
      options.config[axis.name] = axis.value;
    for (const auto& [axis, value] : std::initializer_list<std::pair<const char*, const char*>>{
             {"layers", "1"},
             {"batch", "1"},
             {"hidden", size.hidden},
             {"heads", size.heads},
             {"kv_heads", size.heads},
             {"intermediate", size.intermediate},
             {"sequence", size.sequence},
             {"dtype", size.dtype}})
      options.config[axis] = value;
    const auto system = llama::System::of(options);
    const llama::Model model = system.model();
    const auto eager = llama::Regions::eager(system.shape);
    const auto forward = [&](const llama::Regions& regions) {
      return model.forward(system.x, system.cos, system.sin, regions);
    };
    auto norm = compile(eager.norm);
    auto add_norm = compile(eager.add_norm);
    auto split_rope = compile(eager.split_rope);
    auto swiglu = compile(eager.swiglu);
    llama::Regions regions = eager;
    regions.norm = norm, regions.add_norm = add_norm, regions.split_rope = split_rope;
    regions.swiglu = swiglu;
    auto whole =
        compile([&](const Tensor& x) { return model.forward(x, system.cos, system.sin, eager); });
    cli::settle([&] { forward(regions); },
                [&] { norm.wait(), add_norm.wait(), split_rope.wait(), swiglu.wait(); },
                [&] {
                  for (const Verdict verdict : {norm.report().verdict, add_norm.report().verdict,
                                                split_rope.report().verdict})
                    if (!cli::is_final(verdict)) return verdict;
                  return swiglu.report().verdict;
                });
    cli::settle([&] { whole(system.x); }, [&] { whole.wait(); },
                [&] { return whole.report().verdict; });
    Facts facts;
    facts.accuracy = "largest difference " +
                     lab::number(lab::relative_error({whole(system.x)}, {forward(eager)})) +
                     " of the largest value";
    const std::string configuration =
        std::string("hidden ") + size.hidden + ", " + size.sequence + " tokens, " + size.dtype;
    trial.compare(configuration, {"eager", [&] { forward(eager); }},
                  {"one program", [&] { whole(system.x); }}, facts);
    trial.compare(configuration, {"eager", [&] { forward(eager); }},
                  {"regions compiled", [&] { forward(regions); }});
    trial.compare(configuration, {"regions compiled", [&] { forward(regions); }},
                  {"one program", [&] { whole(system.x); }});
  }
  trial.note(
      "a layer is mostly its matrix products, which are ATen's on both sides: the gain is bounded "
      "by the rest");
}

}  // namespace

std::vector<Claim> fusion_claims() {
  return {{"operator_fusion", "neural operator fusion",
           "attention, feed-forward layer and norm in one unit: 3.59x", 3.59, whole_layer}};
}

}  // namespace graft::experiments
