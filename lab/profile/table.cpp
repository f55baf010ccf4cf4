#include "lab/profile/table.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <unordered_map>

#include "lab/stats.h"
#include "lab/words.h"

namespace graft::lab {
namespace {

constexpr const char* kWhole = "(whole call)";

double sum(std::span<const double> x) {
  double out = 0;
  for (double value : x) out += value;
  return out;
}

/// avg, median, min, max and stddev of a row.
template <class Row>
void describe(Row& row, std::span<const double> us) {
  row.instances = static_cast<int64_t>(us.size());
  row.avg_us = mean(us);
  row.median_us = median(us);
  row.min_us = quantile(us, 0);
  row.max_us = quantile(us, 1);
  row.stddev_us = stddev(us);
}

/// Time of the events that nothing inside the range is around.
double range_us(const Profile& profile, const std::string& range) {
  double us = 0;
  for (const ProfileEvent& event : profile.events) {
    if (!inside_range(event.range, range)) continue;
    const bool outermost =
        event.parent < 0 ||
        !inside_range(profile.events[static_cast<size_t>(event.parent)].range, range);
    if (outermost) us += event.duration_us;
  }
  return us;
}

std::string row_name(const ProfileEvent& event) {
  return event.is_range && kind_of(event) == Kind::Other ? kHostCode : event.name;
}

/// Whether an event of the same row is around it: its time is in that one's total already.
bool repeats(const Profile& profile, const ProfileEvent& event, const std::string& range) {
  const std::string name = row_name(event);
  for (int64_t at = event.parent; at >= 0;) {
    const ProfileEvent& around = profile.events[static_cast<size_t>(at)];
    if (!inside_range(around.range, range)) return false;
    if (row_name(around) == name) return true;
    at = around.parent;
  }
  return false;
}

template <class Row>
nlohmann::json spread_json(const Row& row) {
  return {{"share", row.share},         {"instances", row.instances}, {"avg_us", row.avg_us},
          {"median_us", row.median_us}, {"min_us", row.min_us},       {"max_us", row.max_us},
          {"stddev_us", row.stddev_us}};
}

template <class Row>
void add_spread(std::vector<Cell>& cells, const Row& row) {
  cells.emplace_back(std::to_string(row.instances));
  for (double us : {row.avg_us, row.median_us, row.min_us, row.max_us, row.stddev_us})
    cells.emplace_back(number(us));
}

void add_spread_columns(std::vector<Column>& columns) {
  for (const char* name : {"instances", "avg µs", "median", "min", "max", "stddev"})
    columns.push_back({name, Align::Right});
}

}  // namespace

std::vector<OperatorRow> operator_rows(const Profile& profile, const std::string& range) {
  std::vector<OperatorRow> rows;
  std::vector<std::vector<double>> self;
  std::unordered_map<std::string, size_t> index;
  for (const ProfileEvent& event : profile.events) {
    if (!inside_range(event.range, range)) continue;
    const auto [at, fresh] = index.try_emplace(row_name(event), rows.size());
    if (fresh) {
      rows.push_back({.name = at->first, .kind = kind_of(event)});
      self.emplace_back();
    }
    self[at->second].push_back(event.self_us);
    if (!repeats(profile, event, range)) rows[at->second].total_ms += 1e-3 * event.duration_us;
  }
  const double whole = range_us(profile, range);
  for (size_t i = 0; i < rows.size(); ++i) {
    const double us = sum(self[i]);
    rows[i].self_ms = 1e-3 * us;
    rows[i].share = whole > 0 ? us / whole : 0;
    describe(rows[i], self[i]);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const OperatorRow& a, const OperatorRow& b) {
    return a.self_ms > b.self_ms;
  });
  return rows;
}

std::vector<KindRow> kind_rows(const Profile& profile, const std::string& range) {
  std::array<KindRow, std::size(kKinds)> all;
  for (const OperatorRow& row : operator_rows(profile, range)) {
    KindRow& kind = all[static_cast<size_t>(row.kind)];
    kind.share += row.share;
    kind.self_ms += row.self_ms;
    kind.instances += row.instances;
  }
  std::vector<KindRow> out;
  for (Kind kind : kKinds) {
    KindRow& row = all[static_cast<size_t>(kind)];
    row.kind = kind;
    if (row.instances > 0) out.push_back(row);
  }
  return out;
}

std::vector<RangeRow> range_rows(const Profile& profile, const std::string& within) {
  std::vector<std::string> order{within};
  std::map<std::string, std::vector<double>> durations;
  for (const ProfileEvent& event : profile.events) {
    if (!event.is_range || !inside_range(event.range, within)) continue;
    std::vector<double>& of = durations[event.range];
    if (of.empty() && event.range != within) order.push_back(event.range);
    of.push_back(event.duration_us);
  }
  const double whole = range_us(profile, within);
  std::vector<RangeRow> rows;
  for (const std::string& range : order) {
    RangeRow& row = rows.emplace_back();
    row.range = range;
    const double us = sum(durations[range]);
    row.total_ms = 1e-3 * us;
    row.share = whole > 0 ? us / whole : 0;
    describe(row, durations[range]);
  }
  return rows;
}

Table table_of(const std::vector<RangeRow>& rows) {
  std::vector<Column> columns{{"range"}, {"share", Align::Right}, {"total ms", Align::Right}};
  add_spread_columns(columns);
  Table table(columns);
  for (const RangeRow& row : rows) {
    std::vector<Cell> cells{row.range.empty() ? kWhole : row.range, percent_text(row.share),
                            number(row.total_ms)};
    add_spread(cells, row);
    table.row(std::move(cells));
  }
  return table;
}

Table table_of(const std::vector<OperatorRow>& rows, size_t most) {
  std::vector<Column> columns{{"operator"},
                              {"kind"},
                              {"share", Align::Right},
                              {"self ms", Align::Right},
                              {"total ms", Align::Right}};
  add_spread_columns(columns);
  Table table(columns);
  OperatorRow rest;
  for (size_t i = 0; i < rows.size(); ++i) {
    const OperatorRow& row = rows[i];
    if (i >= most) {
      rest.share += row.share, rest.self_ms += row.self_ms, rest.instances += row.instances;
      continue;
    }
    std::vector<Cell> cells{row.name, to_string(row.kind), percent_text(row.share),
                            number(row.self_ms), number(row.total_ms)};
    add_spread(cells, row);
    table.row(std::move(cells));
  }
  if (rows.size() > most) {
    table.row({{std::to_string(rows.size() - most) + " more", Style::Dim},
               "",
               {percent_text(rest.share), Style::Dim},
               {number(rest.self_ms), Style::Dim},
               "",
               {std::to_string(rest.instances), Style::Dim}});
  }
  return table;
}

Table kind_table(const Profile& profile, const std::vector<std::string>& ranges) {
  std::vector<Column> columns{{"kind of work"}};
  std::map<Kind, std::vector<Cell>> cells;
  for (const std::string& range : ranges) {
    const std::string shown = range.empty() ? kWhole : range;
    columns.push_back({shown, Align::Right});
    columns.push_back({"ms per call", Align::Right});
    columns.push_back({"instances", Align::Right});
    for (const KindRow& row : kind_rows(profile, range)) {
      std::vector<Cell>& line = cells[row.kind];
      line.resize(columns.size() - 4, Cell("-", Style::Dim));
      line.emplace_back(percent_text(row.share));
      line.emplace_back(number(row.self_ms / std::max(1, profile.calls)));
      line.emplace_back(number(static_cast<double>(row.instances) / std::max(1, profile.calls)));
    }
  }
  Table table(columns);
  for (auto& [kind, line] : cells) {
    line.resize(columns.size() - 1, Cell("-", Style::Dim));
    line.insert(line.begin(), Cell(to_string(kind)));
    table.row(line);
  }
  return table;
}

Table kinds_by_range(const Profile& profile, const std::vector<std::string>& ranges) {
  std::vector<std::map<Kind, KindRow>> rows;
  std::set<Kind> kinds;
  for (const std::string& range : ranges) {
    rows.emplace_back();
    for (const KindRow& row : kind_rows(profile, range)) {
      rows.back()[row.kind] = row;
      kinds.insert(row.kind);
    }
  }
  std::vector<Column> columns{{"range"}, {"ms per call", Align::Right}};
  for (const Kind kind : kinds) columns.push_back({to_string(kind), Align::Right});
  Table table(columns);
  for (size_t i = 0; i < ranges.size(); ++i) {
    double ms = 0;
    for (const auto& [kind, row] : rows[i]) ms += row.self_ms;
    std::vector<Cell> cells{ranges[i].empty() ? kWhole : ranges[i],
                            number(ms / std::max(1, profile.calls))};
    for (const Kind kind : kinds)
      cells.push_back(rows[i].contains(kind) ? Cell(percent_text(rows[i][kind].share))
                                             : Cell("-", Style::Dim));
    table.row(std::move(cells));
  }
  return table;
}

nlohmann::json to_json(const Profile& profile) {
  nlohmann::json ranges = nlohmann::json::array();
  for (const RangeRow& range : range_rows(profile)) {
    nlohmann::json made = spread_json(range);
    made["range"] = range.range;
    made["total_ms"] = range.total_ms;
    for (const OperatorRow& row : operator_rows(profile, range.range)) {
      nlohmann::json& op = made["operators"].emplace_back(spread_json(row));
      op["name"] = row.name, op["kind"] = to_string(row.kind);
      op["self_ms"] = row.self_ms, op["total_ms"] = row.total_ms;
    }
    for (const KindRow& row : kind_rows(profile, range.range)) {
      made["kinds"].push_back({{"kind", to_string(row.kind)},
                               {"share", row.share},
                               {"self_ms", row.self_ms},
                               {"instances", row.instances}});
    }
    ranges.push_back(std::move(made));
  }
  return {{"calls", profile.calls},
          {"call_ms", profile.call_ms},
          {"plain_ms", profile.plain_ms},
          {"ranges", ranges}};
}

}  // namespace graft::lab
