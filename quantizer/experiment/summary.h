// The results of the GPTQ experiment, as tables for the terminal and as summary.md.
#pragma once

#include <iosfwd>
#include <nlohmann/json.hpp>
#include <string>

namespace graft::cli {

/// The artifacts; null if the mode does not make one.
struct GptqFindings {
  nlohmann::json environment, baseline, compiled, numerics, sentinel;
};

void print(std::ostream& out, const GptqFindings& found, bool colour);
std::string gptq_markdown(const GptqFindings& found);

}  // namespace graft::cli
