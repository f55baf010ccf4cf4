// Which linear layers of a model are quantised.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "quantizer/model/architecture.h"

namespace graft::workloads::gptq {

class Targets {
 public:
  /// Those in whose module's name the regular expression `pattern` is found. Throws GptqError for a
  /// pattern that is none, or that finds nothing. `model` must outlive it.
  Targets(const Architecture& model, const std::string& pattern);

  bool contains(const std::string& module) const { return modules_.contains(module); }
  const std::set<std::string>& modules() const { return modules_; }
  /// Whether a tensor of that name is the weight of a layer that is quantised.
  bool replaces(std::string_view tensor) const;
  /// All other linear layers, which a reader must be told to leave alone.
  std::vector<std::string> ignored() const;

 private:
  const Architecture& model_;
  std::set<std::string> modules_;
};

}  // namespace graft::workloads::gptq
