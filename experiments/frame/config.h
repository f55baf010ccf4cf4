// Configurations of workloads: axes and their values.
#pragma once

#include <map>
#include <string>

namespace graft::experiments {

using Config = std::map<std::string, std::string>;  ///< axis → value

/// Without what is the workload's own value, which a case's name need not repeat.
Config without_own(const std::string& workload, Config config);
/// Of one axis, which may be the workload's own.
std::string value_of(const std::string& workload, const Config& config, const std::string& axis);

}  // namespace graft::experiments
