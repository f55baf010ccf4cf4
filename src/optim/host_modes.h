// Whether torch::nn's modules train: a flag of theirs, by which dropout and norms do one thing or
// another.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "record/participants.h"

namespace graft::optim {

/// The modules, the user's own among them, whose mode may decide what one recorded run does: those
/// that call operators which are told a mode, or draw random numbers, and those of its beginning,
/// the model as a whole among them; and of modules inside of those that a std::shared_ptr owns.
class HostModes {
 public:
  /// Such an operator is called: finds modules on the stack up to `outermost`.
  void look(const void* outermost);
  /// After the run. Not empty: why a plan cannot be made.
  std::string why_not() const;
  /// After the run, one for each module: a plan is for the mode that it had. Those that the
  /// function made for itself are gone then.
  std::vector<std::shared_ptr<record::Participant>> participants() const;

 private:
  class Mode;
  std::unordered_set<uintptr_t> known_;  ///< words that were looked at
  std::vector<std::shared_ptr<Mode>> modes_;
};

}  // namespace graft::optim
