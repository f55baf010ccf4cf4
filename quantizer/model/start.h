// What is decided before the work begins: the identity by which a later run may resume this one,
// and warnings for the user.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "quantizer/model/checkpoint.h"
#include "quantizer/model/quantize_model.h"
#include "quantizer/model/targets.h"

namespace graft::quantizer {

/// For Workspace: `{key: {"value": …, "said": what the user said}}` for everything that the written
/// bits depend on. Whether the inner loop is compiled is not part of it: the bits are the same.
nlohmann::json run_identity(const QuantizeOptions& options, const Checkpoint& source,
                            const Targets& targets, const Calibration& calibration);

/// Warnings about the calibration data, and about readers that do not support the settings.
std::vector<std::string> run_warnings(const Settings& settings, const Architecture& model,
                                      const Targets& targets, const Calibration& calibration);

}  // namespace graft::quantizer
