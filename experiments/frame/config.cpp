#include "experiments/frame/config.h"

#include "cli/frame/usage.h"

namespace graft::experiments {

Config without_own(const std::string& workload, Config config) {
  for (const workloads::Axis& axis : cli::workload_or_throw(workload).axes)
    if (const auto at = config.find(axis.name); at != config.end() && at->second == axis.value)
      config.erase(at);
  return config;
}

std::string value_of(const std::string& workload, const Config& config, const std::string& axis) {
  if (const auto found = config.find(axis); found != config.end()) return found->second;
  for (const workloads::Axis& known : cli::workload_or_throw(workload).axes)
    if (known.name == axis) return known.value;
  return {};
}

}  // namespace graft::experiments
