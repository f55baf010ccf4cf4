// A run, or several, as one page that needs nothing else: charts as inline SVG, styles and a little
// script within, no network.
#pragma once

#include <string>
#include <vector>

#include "lab/report/report.h"
#include "lab/report/timeline.h"

namespace graft::lab {

/// Sections appear only where the runs have data for them. With several runs the first is what the
/// others are compared with. All text from the runs is escaped.
std::string html_report(const std::vector<NamedRun>& runs,
                        const std::vector<MemoryTimeline>& timelines = {});

}  // namespace graft::lab
