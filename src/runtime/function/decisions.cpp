#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

#include "graft/report.h"
#include "runtime/process/text.h"

namespace graft {

namespace {

using Row = std::array<std::string, 7>;
constexpr std::array<bool, 7> kRight{false, false, false, true, false, true, true};

double distance(const Decision& decision) {
  double ratio = decision.ratio();
  return ratio > 0 ? std::abs(std::log(ratio)) : std::numeric_limits<double>::infinity();
}

Row row_of(const Decision& decision) {
  const Decision::Way &taken = decision.ways[decision.taken], &other = decision.runner_up();
  char ratio[32];
  std::snprintf(ratio, sizeof ratio, "%.2f", decision.ratio());
  return {decision.pass, decision.about,
          taken.name,    runtime::duration(taken.ns / 1e3),
          other.name,    runtime::duration(other.ns / 1e3),
          ratio};
}

/// On a terminal: a byte that continues a character of UTF-8 takes no place.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string line_of(const Row& row, const std::array<size_t, 7>& widths) {
  std::string line;
  for (size_t c = 0; c < row.size(); ++c) {
    const std::string space(widths[c] - width_of(row[c]), ' ');
    line += (c > 0 ? "  " : "") + (kRight[c] ? space + row[c] : row[c] + space);
  }
  return line + '\n';
}

}  // namespace

const Decision::Way& Decision::runner_up() const {
  size_t best = taken == 0 ? 1 : 0;
  for (size_t w = 0; w < ways.size(); ++w)
    if (w != taken && ways[w].ns < ways[best].ns) best = w;
  return ways.at(best);
}

std::vector<Decision> closest_first(std::vector<Decision> decisions) {
  std::stable_sort(decisions.begin(), decisions.end(),
                   [](const Decision& a, const Decision& b) { return distance(a) < distance(b); });
  return decisions;
}

std::string decisions_text(const std::vector<Decision>& all, size_t most) {
  if (all.empty()) return "none: no pass had two ways to choose from\n";
  const std::vector<Decision> decisions = closest_first(all);
  std::vector<Row> rows{{"pass", "about", "taken", "estimate", "other way", "estimate", "ratio"}};
  for (size_t d = 0; d < std::min(most, decisions.size()); ++d)
    rows.push_back(row_of(decisions[d]));
  std::array<size_t, 7> widths{};
  for (const Row& row : rows)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width_of(row[c]));
  std::string text;
  for (const Row& row : rows) text += line_of(row, widths);
  if (decisions.size() > most)
    text += "the closest of " + std::to_string(decisions.size()) +
            "; graft explain --decisions prints all\n";
  return text;
}

}  // namespace graft
