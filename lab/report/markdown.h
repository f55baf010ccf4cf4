// One or several runs as Markdown for a terminal, a log or a pull request.
#pragma once

#include <string>
#include <vector>

#include "lab/report/report.h"

namespace graft::lab {

/// For each run: a line of context, the verdicts, a table with padded columns, and notes on rows
/// that failed, were skipped, are ambiguous or unsteady. With several runs, the first is also
/// compared with each other one. Text from the runs is escaped: it cannot end a cell or begin a
/// tag.
std::string markdown_report(const std::vector<NamedRun>& runs);

}  // namespace graft::lab
