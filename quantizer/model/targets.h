// Which linear layers of a model are quantised.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "quantizer/model/architecture.h"

namespace graft::quantizer {

class Targets {
 public:
  /// The linear layers whose module name matches the regular expression `pattern` somewhere. Throws
  /// GptqError for an invalid pattern, or one that matches nothing. `model` must outlive it.
  Targets(const Architecture& model, const std::string& pattern);

  bool contains(const std::string& module) const { return modules_.contains(module); }
  const std::set<std::string>& modules() const { return modules_; }
  /// Is the tensor of that name the weight of a layer that is quantised?
  bool replaces(std::string_view tensor) const;
  /// All other linear layers; a reader must be told that they are not quantised.
  std::vector<std::string> ignored() const;

 private:
  const Architecture& model_;
  std::set<std::string> modules_;
};

}  // namespace graft::quantizer
