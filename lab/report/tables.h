// The page's tables: each a piece of HTML.
#pragma once

#include <string>
#include <vector>

#include "lab/gate.h"
#include "lab/report/report.h"

namespace graft::lab::tables {

/// A row a case and variant, and below it what is to be said of some. Sorted by a click on a
/// header.
std::string summary(const std::vector<CaseFacts>& cases);
/// The verdicts and the mean ratio of each variant.
std::string score_tiles(const std::vector<CaseFacts>& cases);
/// How many became faster, slower, or neither, and what the others are.
std::string tally_of(const std::vector<GateRow>& rows);
std::string before_after(const std::vector<GateRow>& rows);
/// What each run's context holds, a column a run; where two differ, the row is marked.
std::string environment(const std::vector<NamedRun>& runs);
/// Every sample, folded away.
std::string raw(const Run& run);

}  // namespace graft::lab::tables
