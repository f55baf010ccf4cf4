// The tables of the GPTQ experiment's summary.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "quantizer/experiment/summary.h"

namespace graft::cli {

/// A table, or with no columns a line of text.
struct GptqPart {
  std::string text;
  std::vector<std::string> columns;  ///< the first is left-aligned
  std::vector<std::vector<std::string>> rows;
};

/// Statistics of whole passes, of the variants that ran.
GptqPart whole_part(const GptqFindings& found);
/// Of one variant: where a layer's time goes.
GptqPart shares_part(const std::string& name, const nlohmann::json& statistics);
/// A kind of layer a row, with the speed-up; those whose times are unsteady are marked.
GptqPart gains_part(const nlohmann::json& baseline, const nlohmann::json& compiled);
/// Empty if no row of gains_part is marked.
std::string unsteady_text(const GptqPart& gains);
GptqPart memory_part(const GptqFindings& found);

/// "12.3 %" of 0.123.
std::string percent(double share);
/// "1.52x".
std::string times(double a, double b);

}  // namespace graft::cli
