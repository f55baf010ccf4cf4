// What the passes decide from, beside the program.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/target.h"

namespace graft::passes {

struct Settings {
  ir::Target target;
  bool fast = false;              ///< Numerics::Fast: run `keep-wide`
  std::vector<std::string> skip;  ///< optional passes left out
  bool keep_text = false;         ///< in PassRecord: texts and decisions
  bool keep_decisions = false;    ///< in PassRecord: decisions alone
  /// Of what is computed of captured tensors alone, and then held (pass `fold`); 0: nothing is.
  int64_t most_folded_bytes = 0;
  /// The program's sizes are one example of many: nothing is decided by what they divide by, but
  /// for `constants`, numbers that are the same in all of them.
  bool any_size = false;
  std::shared_ptr<const std::set<int64_t>> constants = nullptr;
  /// Ways to take in place of the cheapest, by Decision::id.
  std::map<std::string, std::string> decisions = {};

  /// May the extent be another one in other examples?
  bool may_vary(int64_t extent) const {
    return any_size && (constants == nullptr || !constants->contains(extent));
  }
  bool skips(std::string_view pass) const {
    return std::find(skip.begin(), skip.end(), pass) != skip.end();
  }
};

}  // namespace graft::passes
