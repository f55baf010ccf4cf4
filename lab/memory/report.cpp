#include "lab/memory/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

namespace graft::lab {

nlohmann::json to_json(const MemoryReport& r) {
  nlohmann::json timeline = nlohmann::json::array(), largest = nlohmann::json::array(),
                 ranges = nlohmann::json::array();
  for (const MemoryPoint& point : r.timeline)
    timeline.push_back({point.seconds, point.live, point.reserved});
  for (const MemoryOwner& owner : r.largest) {
    largest.push_back({{"bytes", owner.bytes},
                       {"count", owner.count},
                       {"op", owner.op},
                       {"region", owner.region}});
  }
  for (const MemoryRange& range : r.ranges)
    ranges.push_back({{"region", range.region}, {"peak_bytes", range.peak_bytes}});
  const auto known = [](int64_t bytes) {
    return bytes < 0 ? nlohmann::json() : nlohmann::json(bytes);
  };
  return {{"seconds", r.seconds},
          {"start_bytes", r.start_bytes},
          {"peak_bytes", r.peak_bytes},
          {"end_bytes", r.end_bytes},
          {"peak_reserved", r.peak_reserved},
          {"allocations", r.allocations},
          {"frees", r.frees},
          {"start_tensors", r.start_tensors},
          {"peak_tensors", r.peak_tensors},
          {"end_tensors", r.end_tensors},
          {"strange_frees", r.strange_frees},
          {"peak_seconds", r.peak_seconds},
          {"start_resident", known(r.start_resident)},
          {"peak_resident", known(r.peak_resident)},
          {"end_resident", known(r.end_resident)},
          {"timeline_columns", {"seconds", "live", "reserved"}},
          {"timeline", timeline},
          {"largest", largest},
          {"ranges", ranges}};
}

std::string sparkline(const MemoryReport& report, double seconds, int64_t top, size_t width) {
  static constexpr std::array<const char*, 8> kBlocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (width == 0 || report.timeline.empty() || !(seconds > 0) || top <= 0) return "";
  std::string out;
  size_t next = 0;
  int64_t live = 0;  // at the end of the part before
  for (size_t i = 0; i < width; ++i) {
    const double end = seconds * static_cast<double>(i + 1) / static_cast<double>(width);
    int64_t most = live;
    for (; next < report.timeline.size(); ++next) {
      const MemoryPoint& point = report.timeline[next];
      if (point.seconds >= end && i + 1 < width) break;
      live = point.live - report.start_bytes;
      most = std::max(most, live);
    }
    const double part = static_cast<double>(most) / static_cast<double>(top);
    const auto level = static_cast<int>(std::ceil(std::clamp(part, 0.0, 1.0) * 8)) - 1;
    out += kBlocks[static_cast<size_t>(std::max(level, 0))];
    if (end > report.seconds) break;  // the scope is over: nothing is known of later
  }
  return out;
}

}  // namespace graft::lab
