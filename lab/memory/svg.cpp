// Memory over time as a picture.
#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>

#include "lab/memory/report.h"
#include "lab/report/svg.h"
#include "lab/table.h"
#include "lab/words.h"

namespace graft::lab {
namespace {

constexpr double kWidth = 760, kLeft = 72, kRight = 20, kPlotHeight = 248, kBottom = 48,
                 kLegend = 44, kLine = 18;
constexpr double kPlotWidth = kWidth - kLeft - kRight;
constexpr size_t kColours = 4;

constexpr const char* kLedgerStyle = R"(<style>
  svg { --ink: #1f2328; --faint: #59636e; --line: #d1d9e0; --paper: #ffffff;
        --c0: #0969da; --c1: #bc4c00; --c2: #1a7f37; --c3: #8250df; }
  @media (prefers-color-scheme: dark) {
    svg { --ink: #f0f6fc; --faint: #9198a1; --line: #3d444d; --paper: #0d1117;
          --c0: #58a6ff; --c1: #f0883e; --c2: #3fb950; --c3: #bc8cff; }
  }
  text { font: 12px system-ui, sans-serif; fill: var(--faint); }
  .title { font-size: 15px; font-weight: 600; fill: var(--ink); }
  .name { fill: var(--ink); }
  .grid { stroke: var(--line); stroke-width: 1; }
  .live { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
  .under { stroke: none; fill-opacity: .13; }
  .reserved { fill: none; stroke-width: 1.2; stroke-dasharray: 5 4; }
</style>
)";

struct AxisUnit {
  const char* name;
  double size;
};

/// The largest unit of which `most` is at least one.
template <size_t N>
AxisUnit unit_for(double most, const AxisUnit (&units)[N]) {
  AxisUnit out = units[0];
  for (const AxisUnit& unit : units) {
    if (most >= unit.size) out = unit;
  }
  return out;
}

/// Up to one decimal of a pixel.
std::string pixels(double value) {
  return svg::plain(std::round(value * 10) / 10);
}

struct Axes {
  AxisUnit time, size;
  svg::Axis across, up;  // in those units
  double top;            // of the plot, in pixels: below the legend

  double bottom() const { return top + kPlotHeight; }
  double height() const { return bottom() + kBottom; }

  std::string x(double seconds) const {
    return pixels(kLeft + across.at(seconds / time.size) * kPlotWidth);
  }
  std::string y(double bytes) const {
    return pixels(top + (1 - up.at(std::max(bytes, 0.0) / size.size)) * kPlotHeight);
  }

  /// A step line: memory stays as it is until the next event.
  std::string path(const MemoryReport& report, int64_t MemoryPoint::* what) const {
    std::string out;
    for (const MemoryPoint& point : report.timeline) {
      const std::string at = y(static_cast<double>(point.*what - report.start_bytes));
      out += out.empty() ? "M" + x(point.seconds) + ' ' + at : "H" + x(point.seconds) + "V" + at;
    }
    return out;
  }
};

Axes axes_for(const std::vector<MemorySeries>& series) {
  double seconds = 1e-9, bytes = 1;
  for (const MemorySeries& one : series) {
    seconds = std::max(seconds, one.report.seconds);
    bytes = std::max({bytes, static_cast<double>(one.report.peak_bytes),
                      static_cast<double>(one.report.peak_reserved)});
  }
  const AxisUnit time = unit_for(seconds, {{"µs", 1e-6}, {"ms", 1e-3}, {"s", 1}});
  const AxisUnit size =
      unit_for(bytes, {{"B", 1}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}});
  return {time, size, svg::Axis::linear(0, seconds / time.size),
          svg::Axis::linear(0, bytes / size.size),
          kLegend + kLine * static_cast<double>(series.size()) - 4};
}

void draw_axes(std::ostream& out, const Axes& axes) {
  for (const double tick : axes.up.ticks(6)) {
    const std::string y = axes.y(tick * axes.size.size);
    out << "<line class=\"grid\" x1=\"" << kLeft << "\" x2=\"" << kWidth - kRight << "\" y1=\"" << y
        << "\" y2=\"" << y << "\"/>\n<text text-anchor=\"end\" dy=\"4\" x=\"" << kLeft - 8
        << "\" y=\"" << y << "\">" << svg::plain(std::abs(tick)) << "</text>\n";
  }
  for (const double tick : axes.across.ticks(8)) {
    out << "<text text-anchor=\"middle\" x=\"" << axes.x(tick * axes.time.size) << "\" y=\""
        << axes.bottom() + kLine << "\">" << svg::plain(std::abs(tick)) << "</text>\n";
  }
  out << "<text text-anchor=\"middle\" x=\"" << kLeft + kPlotWidth / 2 << "\" y=\""
      << axes.height() - 8 << "\">time since the first call began, " << axes.time.name
      << "</text>\n"
      << "<text text-anchor=\"middle\" transform=\"translate(16 " << axes.top + kPlotHeight / 2
      << ") rotate(-90)\">live memory above the start, " << axes.size.name << "</text>\n";
}

/// By so much that a second line is seen apart from the first.
bool reserves_more(const MemoryReport& report) {
  const int64_t seen = report.peak_bytes / 100;
  return std::any_of(report.timeline.begin(), report.timeline.end(),
                     [&](const MemoryPoint& point) { return point.reserved - point.live > seen; });
}

void draw_series(std::ostream& out, const Axes& axes, const MemorySeries& series, size_t index) {
  const MemoryReport& report = series.report;
  if (report.timeline.empty()) return;
  const std::string colour = "var(--c" + std::to_string(index % kColours) + ")";
  const std::string live = axes.path(report, &MemoryPoint::live);
  out << "<path class=\"under\" style=\"fill: " << colour << "\" d=\"" << live << "V" << axes.y(0)
      << "H" << axes.x(report.timeline.front().seconds) << "Z\"/>\n"
      << "<path class=\"live\" style=\"stroke: " << colour << "\" d=\"" << live << "\"><title>"
      << svg::escape(series.name) << "</title></path>\n";
  if (reserves_more(report)) {
    out << "<path class=\"reserved\" style=\"stroke: " << colour << "\" d=\""
        << axes.path(report, &MemoryPoint::reserved) << "\"><title>" << svg::escape(series.name)
        << ", reserved</title></path>\n";
  }
}

void draw_legend(std::ostream& out, const std::vector<MemorySeries>& series) {
  for (size_t i = 0; i < series.size(); ++i) {
    const MemoryReport& report = series[i].report;
    std::string text =
        series[i].name + ", peak " + bytes_text(static_cast<double>(report.peak_bytes));
    if (reserves_more(report)) {
      text += "; dashed: reserved by the allocator, peak " +
              bytes_text(static_cast<double>(report.peak_reserved));
    }
    const double y = kLegend + kLine * static_cast<double>(i);
    out << "<line x1=\"" << kLeft << "\" x2=\"" << kLeft + 18 << "\" y1=\"" << y - 4 << "\" y2=\""
        << y - 4 << "\" stroke-width=\"3\" style=\"stroke: var(--c" << i % kColours
        << ")\"/>\n<text class=\"name\" x=\"" << kLeft + 26 << "\" y=\"" << y << "\">"
        << svg::escape(text) << "</text>\n";
  }
}

}  // namespace

std::string memory_svg(const std::string& title, const std::vector<MemorySeries>& series) {
  const Axes axes = axes_for(series);
  std::ostringstream out;
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << kWidth << ' '
      << axes.height() << "\" role=\"img\">\n<title>" << svg::escape(title) << "</title>\n"
      << kLedgerStyle << "<rect width=\"100%\" height=\"100%\" style=\"fill: var(--paper)\"/>\n"
      << "<text class=\"title\" x=\"" << kLeft << "\" y=\"24\">" << svg::escape(title)
      << "</text>\n";
  draw_axes(out, axes);
  for (size_t i = 0; i < series.size(); ++i) draw_series(out, axes, series[i], i);
  draw_legend(out, series);
  out << "</svg>\n";
  return out.str();
}

}  // namespace graft::lab
