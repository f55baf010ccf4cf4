// The memory timelines that `graft memory --json` writes, for the page.
#pragma once

#include <string>
#include <vector>

#include "lab/report/charts.h"

namespace graft::lab {

/// Live and reserved bytes over seconds, of one workload.
struct MemoryTimeline {
  struct Point {
    double seconds = 0, live = 0, reserved = 0;
  };
  struct Line {
    std::string variant;
    std::vector<Point> points;
  };
  std::string title;  ///< the workload with its configuration
  std::vector<Line> lines;
};

/// Throws RunFileError naming `path`, as read_run does.
MemoryTimeline read_timeline(const std::string& path);

namespace charts {
/// Charts of live bytes above those before the first call, one line per variant; dashed, what the
/// allocator held, where that is more.
std::string timelines(const std::vector<MemoryTimeline>& all, const Palette& palette);
}  // namespace charts

}  // namespace graft::lab
