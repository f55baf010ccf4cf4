#include "lab/words.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>

#include "lab/stats.h"

namespace graft::lab {

std::string number(double value, int digits) {
  if (std::isnan(value)) return "-";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  // Rounding first, so that 9.996 counts as two digits before the point.
  char rounded[40], text[80];
  std::snprintf(rounded, sizeof rounded, "%.*e", digits - 1, value);
  const double shown = std::strtod(rounded, nullptr);
  const int magnitude =
      shown == 0 ? 0 : static_cast<int>(std::floor(std::log10(std::abs(shown)) + 1e-12));
  if (magnitude < -12 || magnitude > 15) return rounded;
  std::snprintf(text, sizeof text, "%.*f", std::max(0, digits - 1 - magnitude), value);
  return text;
}

std::string bytes_text(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  return number(bytes, bytes >= 1000 ? 4 : 3) + ' ' + kUnits[unit];
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<int64_t>(std::ceil(std::max(0.0, seconds)));
  const std::string s = std::to_string(whole % 60) + " s",
                    min = std::to_string(whole / 60 % 60) + " min";
  if (whole < 60) return s;
  if (whole < 3600) return min + ' ' + s;
  return std::to_string(whole / 3600) + " h " + min;
}

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  std::string out;
  for (const std::string& word : words) {
    if (!out.empty()) out += between;
    out += word;
  }
  return out;
}

std::string percent_text(double share, int decimals) {
  const double least = std::pow(10.0, -2 - decimals);
  char text[40];
  auto written = [&](const char* before, double part) {
    std::snprintf(text, sizeof text, "%s%.*f %%", before, decimals, 100 * part);
    return std::string(text);
  };
  if (share < 1 && share > 1 - least) return written(">", 1 - least);
  if (share > 0 && share < least) return written("<", least);
  return written("", share);
}

std::string ratio_text(const Ratio& ratio) {
  return number(ratio.ratio) + "x [" + number(ratio.lo) + ", " + number(ratio.hi) + "]";
}

std::string count_text(int64_t count, const std::string& noun) {
  return std::to_string(count) + ' ' + noun + (count == 1 ? "" : "s");
}

}  // namespace graft::lab
