// Neural operator fusion: attention, feed-forward layer and norms as one unit.
#include <ATen/ATen.h>
#include <graft/graft.h>

#include <algorithm>

#include "experiments/systems/claim.h"
#include "lab/words.h"
#include "workloads/systems/llama.h"

namespace graft::experiments {
namespace {

namespace llama = workloads::llama;
using at::Tensor;

/// Calls until a plan has its final verdict.
template <class Call>
void settle_plan(const Call& call, const std::function<Verdict()>& verdict) {
  constexpr int kMost = 200;
  for (int i = 0; i < kMost; ++i) {
    call();
    const Verdict now = verdict();
    if (i > 1 && now != Verdict::Compiling && now != Verdict::Proving) return;
  }
}

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
    settle_plan([&] { forward(regions); },
                [&] {
                  const Verdict all[] = {norm.report().verdict, add_norm.report().verdict,
                                         split_rope.report().verdict, swiglu.report().verdict};
                  return *std::max_element(
                      std::begin(all), std::end(all), [](Verdict a, Verdict b) {
                        const auto open = [](Verdict v) {
                          return v == Verdict::Compiling || v == Verdict::Proving;
                        };
                        return open(a) < open(b);
                      });
                });
    settle_plan([&] { whole(system.x); }, [&] { return whole.report().verdict; });
    const Tensor wanted = forward(eager).to(at::kDouble), got = whole(system.x).to(at::kDouble);
    Facts facts;
    facts.accuracy =
        "largest difference " +
        lab::number((got - wanted).abs().max().item<double>() / wanted.abs().max().item<double>()) +
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
