// What is settled before the work begins: by what a run is known when it is taken up again, and
// what a user should know of it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "quantizer/model/checkpoint.h"
#include "quantizer/model/quantize_model.h"
#include "quantizer/model/targets.h"

namespace graft::workloads::gptq {

/// For Workspace: `{key: {"value": …, "said": what the user said}}` of all that the written bits
/// depend on. Not whether the inner loop is compiled: the bits are the same.
nlohmann::json run_identity(const QuantizeOptions& options, const Checkpoint& source,
                            const Targets& targets, const Calibration& calibration);

/// Of the calibration data, and of readers that do not take what the settings ask for.
std::vector<std::string> run_warnings(const Settings& settings, const Architecture& model,
                                      const Targets& targets, const Calibration& calibration);

}  // namespace graft::workloads::gptq
