// A run, or several, as text for a terminal, a log or a pull request.
#pragma once

#include <string>
#include <vector>

#include "lab/report/report.h"

namespace graft::lab {

/// For each run a line of context, the verdicts, a table whose columns are padded, and notes on
/// rows that failed, were skipped, are ambiguous or unsteady; with several runs, the first against
/// each other one. Text from the runs cannot end a cell or begin a tag.
std::string markdown_report(const std::vector<NamedRun>& runs);

}  // namespace graft::lab
