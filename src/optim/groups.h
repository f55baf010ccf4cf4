// What one step of a torch::optim optimizer works on, read from the object.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "optim/formulas.h"

namespace torch::optim {
class Optimizer;
}

namespace graft::optim {

Kind kind_of(const torch::optim::Optimizer& optimizer);
/// "AdamW"
const char* name_of(Kind kind);

/// The parameters of one group that have gradients.
struct Group {
  Constants constants;
  /// SGD's are their data(), as its step writes them: it counts no version.
  Tensors parameters;
  Tensors gradients;  ///< SGD's; others' are found at the parameters
  States states;
  Numbers numbers;
  /// Counts the step in each parameter's state, as the optimizer's own step does.
  std::vector<std::function<void()>> count;
};

/// All groups of a step; `why`: what a program cannot take, and so the optimizer has to do.
std::vector<Group> groups_of(torch::optim::Optimizer& optimizer, Kind kind,
                             std::optional<std::string>& why);

}  // namespace graft::optim
