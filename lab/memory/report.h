// A memory report for people: a sparkline for the terminal and a picture.
#pragma once

#include <string>
#include <vector>

#include "lab/memory/memory.h"

namespace graft::lab {

/// The timeline as `width` blocks, "▁▁▅█▅▁": the most live bytes above the start in each part of
/// `seconds`. A full block is `top` bytes.
std::string sparkline(const MemoryReport& report, double seconds, int64_t top, size_t width);

struct MemorySeries {
  std::string name;  ///< of the variant
  MemoryReport report;
};
/// Live bytes above the start over time, one line per variant; dashed, what the allocator reserved,
/// where that differs. A self-contained SVG document that suits light and dark pages.
std::string memory_svg(const std::string& title, const std::vector<MemorySeries>& series);

}  // namespace graft::lab
