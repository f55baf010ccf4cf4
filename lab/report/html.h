// One or several runs as a self-contained page: charts as inline SVG, styles and a little script
// inside, no network.
#pragma once

#include <string>
#include <vector>

#include "lab/report/report.h"
#include "lab/report/timeline.h"

namespace graft::lab {

/// Sections without data are left out. Of several runs, the first is the one that the others are
/// compared with. All text from the runs is escaped.
std::string html_report(const std::vector<NamedRun>& runs,
                        const std::vector<MemoryTimeline>& timelines = {});

}  // namespace graft::lab
