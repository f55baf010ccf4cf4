// The tables of the GPTQ experiment's summary.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "quantizer/experiment/summary.h"

namespace graft::cli {

/// A table; without columns, a line of text.
struct GptqPart {
  std::string text;
  std::vector<std::string> columns;  ///< the first is left-aligned
  std::vector<std::vector<std::string>> rows;
};

/// Statistics of whole passes, for the variants that ran.
GptqPart whole_part(const GptqFindings& found);
/// Where a layer's time goes, for one variant.
GptqPart shares_part(const std::string& name, const nlohmann::json& statistics);
/// One row per kind of layer with its speed-up; rows with unsteady times are marked.
GptqPart gains_part(const nlohmann::json& baseline, const nlohmann::json& compiled);
/// The note on marked rows of gains_part; empty if there are none.
std::string unsteady_text(const GptqPart& gains);
GptqPart memory_part(const GptqFindings& found);

/// "1.52x".
std::string times(double a, double b);

}  // namespace graft::cli
