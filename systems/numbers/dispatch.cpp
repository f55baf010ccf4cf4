// Which kernels are used.
#include <c10/util/Exception.h>

#include <atomic>

#include "systems/numbers/kernels.h"

namespace graft::systems {
namespace numbers {
namespace {

std::vector<const Kernels*> usable_kernels() {
  std::vector<const Kernels*> out;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    out.push_back(&kAvx512Kernels);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("f16c"))
    out.push_back(&kAvx2Kernels);
  out.push_back(&kBaselineKernels);
  return out;
}

std::atomic<const Kernels*>& kernels_in_use() {
  static std::atomic<const Kernels*> in_use = usable_kernels().front();
  return in_use;
}

}  // namespace

const Kernels& kernels() {
  return *kernels_in_use().load(std::memory_order_relaxed);
}

}  // namespace numbers

std::vector<std::string> instruction_sets() {
  std::vector<std::string> out;
  for (const numbers::Kernels* kernels : numbers::usable_kernels()) out.emplace_back(kernels->name);
  return out;
}

void use_instruction_set(std::string_view name) {
  std::string known;
  for (const numbers::Kernels* kernels : numbers::usable_kernels()) {
    if (kernels->name == name) return numbers::kernels_in_use().store(kernels);
    known += (known.empty() ? "" : ", ") + std::string(kernels->name);
  }
  TORCH_CHECK_VALUE(false, "use_instruction_set: this machine has no kernels for '", name,
                    "'; it has ", known, ".");
}

}  // namespace graft::systems
