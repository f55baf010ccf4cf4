// What every file of results says of where and when it was made.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace graft::cli {

/// The machine, the builds, ATen's threads, and the date in UTC.
nlohmann::json run_context();

/// A busy machine shows in every number; better said before the run than guessed after it. Empty
/// where it is not.
std::string busy_text(const nlohmann::json& context);
/// To stderr.
void warn_if_busy(const nlohmann::json& context);

}  // namespace graft::cli
