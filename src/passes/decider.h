// Decider: the one place where a pass takes the cheapest of several ways, so that what it chose and
// left can be shown (`graft explain`) and tried (`graft tune`).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graft/report.h"
#include "ir/program.h"

namespace graft::passes {

/// Of one run of one pass.
class Decider {
 public:
  /// `forced`: Settings::decisions. `made` gets the decisions; null when nobody asks.
  Decider(std::string pass, const std::map<std::string, std::string>& forced,
          std::vector<Decision>* made)
      : pass_(std::move(pass)), forced_(forced), made_(made) {}

  /// Does anybody want to know or force a way? Otherwise the best one is taken.
  bool is_asked() const { return made_ != nullptr || !forced_.empty(); }

  /// The pass starts anew: what it decided so far is void.
  void restart();

  /// The way to take: `best`, or the one that is forced. `describe` gives the decision's `about`
  /// and `ways`; it is called only when somebody asks or forces.
  template <class Describe>
  size_t choose(size_t best, Describe describe) {
    if (!is_asked()) return best;
    return choose(best, Decision(describe()));
  }

 private:
  size_t choose(size_t best, Decision decision);

  std::string pass_;
  const std::map<std::string, std::string>& forced_;
  std::vector<Decision>* made_;
  std::map<std::string, size_t> known_;  ///< by `about`, into *made_
};

/// The storages that the statements store to, as a decision's `about`: "%3 %5", and of many
/// "%3 %5 … %19 (14)".
std::string stored_by(const std::vector<const ir::Statement*>& statements);

}  // namespace graft::passes
