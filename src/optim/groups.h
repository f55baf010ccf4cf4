// What one step of a torch::optim optimizer works on, read from the object.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "optim/formulas.h"

namespace torch::optim {
class Optimizer;
}

namespace graft::optim {

Kind kind_of(const torch::optim::Optimizer& optimizer);
/// "AdamW"
const char* name_of(Kind kind);
/// How the mangled names of torch::optim's functions begin.
inline constexpr const char* kMangled = "_ZN5torch5optim";
/// Whose step() has that mangled name?
Kind kind_of_step(std::string_view name);

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
  std::vector<bool> steps;  ///< of each of the optimizer's group: is it among `parameters`?
  /// The optimizer's parameters among them, and their states, by address.
  std::vector<const void*> objects;
};

/// All groups of a step; `why`: what a program cannot take, and so the optimizer has to do.
/// `under_way`: some parameters have made the step already, so that the numbers mean nothing.
std::vector<Group> groups_of(torch::optim::Optimizer& optimizer, Kind kind,
                             std::optional<std::string>& why, bool under_way = false);
/// Those of a step that is still to come, after `ahead` others (of one that is over: -1), as far as
/// they are known before its gradients: of the parameters that made a step when `recorded` was
/// made.
std::vector<Group> groups_to_come(torch::optim::Optimizer& optimizer, Kind kind,
                                  const std::vector<Group>& recorded, int64_t ahead,
                                  std::optional<std::string>& why);

}  // namespace graft::optim
