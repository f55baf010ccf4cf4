// The page's tables, as HTML.
#pragma once

#include <string>
#include <vector>

#include "lab/gate.h"
#include "lab/report/report.h"

namespace graft::lab::tables {

/// One row per case and variant, and notes below. A click on a header sorts it.
std::string summary(const std::vector<CaseFacts>& cases);
/// The verdicts and the mean ratio of each variant.
std::string score_tiles(const std::vector<CaseFacts>& cases);
/// How many rows became faster, slower or neither, and what became of the others.
std::string tally_of(const std::vector<GateRow>& rows);
std::string before_after(const std::vector<GateRow>& rows);
/// Each run's context, one column per run; rows whose values differ are marked.
std::string environment(const std::vector<NamedRun>& runs);
/// Every sample, in a section that is closed at first.
std::string raw(const Run& run);

}  // namespace graft::lab::tables
