#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "cli/inspect/check_common.h"
#include "cli/measure/sweep.h"

namespace graft::cli {

/// `graft check --steps N`: trains eagerly and compiled from one start, and sets the losses side by
/// side, next to those of eager on another number of threads and from weights one ulp off. Prints a
/// table; `results` are rows for the file. False if one is not good. Throws UsageError where no
/// case trains.
bool check_steps(const std::vector<Case>& cases, const CheckOptions& options,
                 nlohmann::json& results);

}  // namespace graft::cli
