#include "quantizer/model/targets.h"

#include <regex>

#include "quantizer/model/error.h"

namespace graft::quantizer {

Targets::Targets(const Architecture& model, const std::string& pattern) : model_(model) {
  std::regex regex;
  try {
    regex = std::regex(pattern);
  } catch (const std::regex_error&) {
    throw GptqError("--targets '" + pattern + "' is not a regular expression");
  }
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    for (const LinearSpec& linear : model.linears(layer)) {
      if (std::regex_search(linear.module, regex)) modules_.insert(linear.module);
    }
  }
  if (modules_.empty()) {
    throw GptqError("--targets '" + pattern +
                    "' matches no linear layer; their names are such as '" +
                    model.linears(0).front().module + "'");
  }
}

bool Targets::replaces(std::string_view tensor) const {
  constexpr std::string_view kWeight = ".weight";
  if (!tensor.ends_with(kWeight)) return false;
  tensor.remove_suffix(kWeight.size());
  return modules_.contains(std::string(tensor));
}

std::vector<std::string> Targets::ignored() const {
  std::vector<std::string> out = model_.other_linears();
  for (int64_t layer = 0; layer < model_.layers; ++layer) {
    for (const LinearSpec& linear : model_.linears(layer)) {
      if (!contains(linear.module)) out.push_back(linear.module);
    }
  }
  return out;
}

}  // namespace graft::quantizer
