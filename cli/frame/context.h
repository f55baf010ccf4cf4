// Where and when results were made, for every file of results.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace graft::cli {

/// The machine, the builds, ATen's threads, and the date in UTC.
nlohmann::json run_context();

/// A warning if the machine is busy, since that affects every number; empty if it is not.
std::string busy_text(const nlohmann::json& context);
/// Prints busy_text to stderr.
void warn_if_busy(const nlohmann::json& context);

}  // namespace graft::cli
