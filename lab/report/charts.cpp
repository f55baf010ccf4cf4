// The palette, and charts of rows below one another: intervals and bars.

#include "lab/report/charts.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "lab/report/svg.h"
#include "lab/table.h"
#include "lab/words.h"

namespace graft::lab::charts {
namespace {

using svg::Axis;
using svg::Chart;

constexpr int kHeading = 26, kRow = 22, kBelowGroup = 12;  // pixels

struct ForestRow {
  std::string variant;
  Ratio ratio;
  std::string verdict;
};
struct ForestGroup {
  std::string title;
  std::vector<ForestRow> rows;
};

bool drawable(const Ratio& r) {
  return r.lo > 0 && std::isfinite(r.hi) && r.ratio > 0 && std::isfinite(r.ratio);
}

template <class Group>
int height_of(const std::vector<Group>& groups) {
  int height = 0;
  for (const Group& group : groups)
    height += kHeading + kRow * static_cast<int>(group.rows.size()) + kBelowGroup;
  return height;
}

std::string forest(const std::vector<ForestGroup>& groups, const Palette& palette,
                   const std::string& axis_title, const std::string& description) {
  if (groups.empty()) return "";
  double lo = 1, hi = 1;
  for (const ForestGroup& group : groups) {
    for (const ForestRow& row : group.rows) {
      lo = std::min(lo, row.ratio.lo);
      hi = std::max(hi, row.ratio.hi);
    }
  }
  Chart chart(Axis::logarithmic(lo, hi), Axis::linear(0, 1), height_of(groups));
  chart.x_axis([](double ratio) { return svg::plain(ratio) + 'x'; }, 6, axis_title);
  chart.rule(1, "one");
  double y = 0;
  for (const ForestGroup& group : groups) {
    chart.heading(y + kHeading - 8, group.title);
    y += kHeading;
    for (const auto& [variant, r, verdict] : group.rows) {
      const int colour = palette.colour(variant);
      const double middle = y + kRow / 2.0;
      chart.left(middle, variant, "label");
      chart.segment(r.lo, middle, r.hi, middle, "interval " + svg::colour_class(colour));
      chart.marker(r.ratio, middle, colour,
                   group.title + ", " + variant + ": " + ratio_text(r.ratio) + ' ' + range_text(r) +
                       ", " + verdict);
      chart.right(middle, ratio_text(r.ratio), range_text(r), "value");
      y += kRow;
    }
    y += kBelowGroup;
  }
  return chart.html(description, "rows");
}

struct BarRow {
  std::string variant;
  double bytes = 0;
};
struct BarGroup {
  std::string title;
  std::vector<BarRow> rows;
};

/// Lengths are shares of the group's largest: cases differ too much for one scale.
std::string bars(const std::vector<BarGroup>& groups, const Palette& palette,
                 const std::string& description) {
  constexpr double kThick = 12;
  if (groups.empty()) return "";
  Chart chart(Axis::linear(0, 1, 1), Axis::linear(0, 1), height_of(groups));
  double y = 0;
  for (const BarGroup& group : groups) {
    double most = 1;
    for (const BarRow& row : group.rows) most = std::max(most, row.bytes);
    chart.heading(y + kHeading - 8, group.title);
    y += kHeading;
    for (const BarRow& row : group.rows) {
      const double middle = y + kRow / 2.0;
      chart.left(middle, row.variant, "label");
      chart.bar(0, 1, middle, kThick, "track");
      chart.bar(0, row.bytes / most, middle, kThick,
                "fill " + svg::colour_class(palette.colour(row.variant)));
      chart.right(middle, row.bytes > 0 ? bytes_text(row.bytes) : "0", "", "value");
      y += kRow;
    }
    y += kBelowGroup;
  }
  return chart.html(description, "rows");
}

}  // namespace

Palette::Palette(const std::vector<std::vector<CaseFacts>>& runs) {
  std::vector<std::string> references, others;
  bool graft = false;
  const auto add = [](std::vector<std::string>& list, const std::string& name) {
    if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
  };
  for (const auto& cases : runs) {
    for (const CaseFacts& c : cases) {
      for (const RowFacts& row : c.rows) {
        graft |= row.row->variant == "graft";
        add(row.is_reference() ? references : others, row.row->variant);
      }
    }
  }
  if (!references.empty()) variants_.push_back(references.front());
  if (graft) add(variants_, "graft");
  for (const std::string& name : references) add(variants_, name);
  for (const std::string& name : others) add(variants_, name);
}

int Palette::colour(const std::string& variant) const {
  return static_cast<int>(std::find(variants_.begin(), variants_.end(), variant) -
                          variants_.begin());
}

std::string Palette::legend(const std::vector<CaseFacts>& cases) const {
  std::set<std::string> there;
  for (const CaseFacts& c : cases) {
    for (const RowFacts& row : c.rows) there.insert(row.row->variant);
  }
  std::vector<std::pair<int, std::string>> entries;
  for (const std::string& variant : variants_) {
    if (there.count(variant) > 0) entries.emplace_back(colour(variant), variant);
  }
  return svg::legend(entries);
}

std::string speed_up(const std::vector<CaseFacts>& cases, const Palette& palette) {
  std::vector<ForestGroup> groups;
  for (const CaseFacts& c : cases) {
    ForestGroup group{c.name, {}};
    for (const RowFacts& row : c.rows) {
      if (row.against && drawable(row.against->ratio))
        group.rows.push_back({row.row->variant, row.against->ratio, verdict_text(row)});
    }
    if (!group.rows.empty()) groups.push_back(std::move(group));
  }
  return forest(groups, palette, "times as fast as the reference",
                "Speed-up of each variant over its case's reference, with 95 % intervals");
}

std::string before_after(const std::vector<GateRow>& rows, const Palette& palette) {
  std::vector<ForestGroup> groups;
  for (const GateRow& row : rows) {
    if (!drawable(row.change)) continue;
    if (groups.empty() || groups.back().title != row.case_name)
      groups.push_back({row.case_name, {}});
    groups.back().rows.push_back({row.variant, row.change, to_string(row.outcome)});
  }
  return forest(groups, palette, "times as fast as before",
                "Speed after over speed before of each case and variant, with 95 % intervals");
}

std::string memory(const std::vector<CaseFacts>& cases, const Palette& palette) {
  static constexpr std::pair<int64_t MemoryUse::*, const char*> kKinds[] = {
      {&MemoryUse::peak_allocated, "Live tensors at peak"},
      {&MemoryUse::peak_reserved, "Held by the allocator at peak"},
      {&MemoryUse::peak_resident, "Growth of the process"}};
  std::string out;
  for (const auto& [kind, title] : kKinds) {
    std::vector<BarGroup> groups;
    for (const CaseFacts& c : cases) {
      BarGroup group{c.name, {}};
      for (const RowFacts& row : c.rows) {
        const int64_t bytes = row.row->memory.*kind;
        if (bytes >= 0) group.rows.push_back({row.row->variant, static_cast<double>(bytes)});
      }
      if (!group.rows.empty()) groups.push_back(std::move(group));
    }
    if (groups.empty()) continue;
    out += svg::figure(
        title, bars(groups, palette, std::string(title) + " of each case and variant, as bars"));
  }
  return out.empty() ? "" : "<div class=\"tiles\">\n" + out + "</div>\n";
}

}  // namespace graft::lab::charts
