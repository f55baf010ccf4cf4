#include "lab/report/timeline.h"

#include <algorithm>
#include <fstream>

#include "lab/report/svg.h"
#include "lab/table.h"
#include "lab/words.h"

namespace graft::lab {
namespace {

using nlohmann::json;

MemoryTimeline timeline_from_json(const json& from) {
  Row named;
  named.name = from.at("workload").get<std::string>();
  named.config = from.at("config").get<std::map<std::string, std::string>>();
  MemoryTimeline out{named.case_name(), {}};
  for (const json& variant : from.at("variants")) {
    const json& memory = variant.at("memory");
    const auto start = memory.at("start_bytes").get<double>();
    MemoryTimeline::Line line{variant.at("variant").get<std::string>(), {}};
    for (const json& point : memory.at("timeline")) {
      line.points.push_back({point.at(0).get<double>(), point.at(1).get<double>() - start,
                             point.at(2).get<double>() - start});
    }
    out.lines.push_back(std::move(line));
  }
  return out;
}

}  // namespace

MemoryTimeline read_timeline(const std::string& path) {
  constexpr const char* kExpected = "; expected a file that 'graft memory WORKLOAD --json' wrote.";
  std::ifstream file(path, std::ios::binary);
  if (!file) throw RunFileError(path + ": cannot be read" + kExpected);
  const json from = json::parse(file, nullptr, false);
  if (from.is_discarded()) throw RunFileError(path + ": not JSON, or cut off" + kExpected);
  const json version = from.is_object() ? from.value("schema_version", json()) : json();
  if (version.is_number_integer() && version.get<int64_t>() > kSchemaVersion)
    throw RunFileError(path + ": schema version " + version.dump() + ", this graft reads up to " +
                       std::to_string(kSchemaVersion) +
                       "; use the graft that wrote it, or a newer one.");
  try {
    return timeline_from_json(from);
  } catch (const json::exception& error) {
    throw RunFileError(path + ": no timeline (" + error.what() + ')' + kExpected);
  }
}

namespace charts {
namespace {

using Line = MemoryTimeline::Line;
using Point = MemoryTimeline::Point;

/// Memory stays as it is until the next event.
std::vector<svg::Point> steps(const Line& line, double Point::* what, double unit) {
  std::vector<svg::Point> out;
  for (const Point& point : line.points) {
    const double ms = point.seconds * 1000;
    if (!out.empty()) out.emplace_back(ms, out.back().second);
    out.emplace_back(ms, std::max(point.*what, 0.0) / unit);
  }
  return out;
}

std::string chart_of(const MemoryTimeline& timeline, const Palette& palette) {
  double ms = 0, most = 1;
  for (const Line& line : timeline.lines) {
    for (const Point& point : line.points) {
      ms = std::max(ms, point.seconds * 1000);
      most = std::max({most, point.live, point.reserved});
    }
  }
  std::pair<const char*, double> unit{"B", 1};
  for (const auto& larger : {std::pair("KiB", 0x1p10), {"MiB", 0x1p20}, {"GiB", 0x1p30}}) {
    if (most >= larger.second) unit = larger;
  }
  svg::Chart chart(svg::Axis::linear(0, ms, 10), svg::Axis::linear(0, most / unit.second), 260);
  chart.y_axis([&](double size) { return svg::plain(size) + ' ' + unit.first; }, 6);
  chart.x_axis(time_tick, 5, "since the first call began");
  std::string description = "Live memory over time of " + timeline.title + ':';
  for (const Line& line : timeline.lines) {
    if (line.points.empty()) continue;
    const std::string v = svg::colour_class(palette.colour(line.variant));
    double peak = 0;
    bool reserves = false;
    for (const Point& point : line.points) {
      peak = std::max(peak, point.live);
      reserves |= point.reserved > point.live;
    }
    if (reserves) chart.curve(steps(line, &Point::reserved, unit.second), "curve reserved " + v);
    chart.curve(steps(line, &Point::live, unit.second), "curve " + v);
    description += ' ' + line.variant + " at most " + bytes_text(peak) + '.';
  }
  return svg::figure(timeline.title, chart.html(description));
}

}  // namespace

std::string timelines(const std::vector<MemoryTimeline>& all, const Palette& palette) {
  std::string out;
  std::vector<std::pair<int, std::string>> shown;
  for (const MemoryTimeline& timeline : all) {
    out += chart_of(timeline, palette);
    for (const Line& line : timeline.lines) {
      const std::pair entry(palette.colour(line.variant), line.variant);
      if (std::find(shown.begin(), shown.end(), entry) == shown.end()) shown.push_back(entry);
    }
  }
  if (out.empty()) return "";
  return svg::legend(shown) + "<div class=\"tiles large\">\n" + out + "</div>\n";
}

}  // namespace charts
}  // namespace graft::lab
