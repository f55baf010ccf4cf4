// Other processors than this one: the same programs for narrower vectors, beside ATen's own kernels
// for them.
#include "experiments/processes/workers.h"
#include "experiments/systems/claim.h"

namespace graft::experiments {
namespace {

using nlohmann::json;

struct Capability {
  const char *name, *means;
};
constexpr Capability kCapabilities[] = {
    {"avx512", "16 lanes, AVX-512"}, {"avx2", "8 lanes, AVX2"}, {"default", "4 lanes, SSE"}};

void narrower(Trial& trial) {
  for (const Capability& capability : kCapabilities) {
    trial.at(0, capability.means);
    const auto answers =
        run_workers("region_times", {{"small", trial.small()}, {"trials", trial.quick() ? 10 : 30}},
                    1, 0, {{"ATEN_CPU_CAPABILITY", capability.name}});
    for (const json& region : answers.front().at("regions"))
      trial.compare(region.at("name").get<std::string>() + ", " + capability.means, "eager",
                    region.at("eager").get<std::vector<double>>(), "compiled",
                    region.at("graft").get<std::vector<double>>(),
                    {.accuracy = region.at("verdict")});
  }
  trial.note(
      "a processor without AVX-512 is stood in for by ATEN_CPU_CAPABILITY, which ATen's kernels "
      "and "
      "Graft's follow; kernels of all three widths are tested against an interpreter "
      "(test_codegen). "
      "Arm is not built for: no machine or emulator here runs its libtorch");
}

}  // namespace

std::vector<Claim> target_claims() {
  return {{"narrow_vectors", "several vendors' hardware",
           "works on other vendors' hardware; CPU fallback 1.15x", 1.15, narrower}};
}

}  // namespace graft::experiments
