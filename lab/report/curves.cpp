// Charts of time over something: scaling, break-even.

#include <algorithm>
#include <cmath>

#include "lab/report/charts.h"
#include "lab/report/svg.h"

namespace graft::lab::charts {
namespace {

using svg::Anchor;
using svg::Axis;
using svg::Chart;

constexpr int kHeight = 220;

std::string in_tiles(const std::string& figures) {
  return figures.empty() ? "" : "<div class=\"tiles\">\n" + figures + "</div>\n";
}

std::string scaling_chart(const Sweep& sweep, const Palette& palette) {
  svg::Range x, y;
  for (const Sweep::Line& line : sweep.lines) {
    for (const auto& [value, row] : line.points) {
      x.add(value), y.add(row->summary.median);
      y.add(row->summary.ci.lo), y.add(row->summary.ci.hi);
    }
  }
  Chart chart(Axis::logarithmic(x.lo, x.hi), Axis::logarithmic(y.lo, y.hi), kHeight);
  chart.y_axis(time_tick, 6);
  chart.x_axis([](double v) { return svg::plain(v); }, 5, sweep.axis);
  for (const Sweep::Line& line : sweep.lines) {
    const int colour = palette.colour(line.variant);
    const std::string v = svg::colour_class(colour);
    std::vector<svg::Point> points;
    for (const auto& [value, row] : line.points) points.emplace_back(value, row->summary.median);
    chart.curve(points, "curve " + v);
    for (const auto& [value, row] : line.points) {
      const Summary& s = row->summary;
      if (s.ci.lo > 0)
        chart.segment(value, chart.y_at(s.ci.lo), value, chart.y_at(s.ci.hi), "interval " + v);
      chart.marker(
          value, chart.y_at(s.median), colour,
          line.variant + ", " + sweep.axis + '=' + svg::plain(value) + ": " + time_text(s.median));
    }
  }
  return svg::figure(sweep.title + " over " + sweep.axis,
                     chart.html("Median time of " + sweep.title + " over " + sweep.axis +
                                ", one line per variant, both axes logarithmic"));
}

std::vector<svg::Point> total_time(double compile_ms, double call_ms, double calls) {
  constexpr int kPoints = 40;
  std::vector<svg::Point> out;
  for (int i = 0; i <= kPoints; ++i) {
    const double n = std::pow(calls, static_cast<double>(i) / kPoints);
    out.emplace_back(n, compile_ms + n * call_ms);
  }
  return out;
}

std::string break_even_chart(const CaseFacts& c, const std::vector<const RowFacts*>& compiled,
                             const Palette& palette) {
  const RowFacts& reference = *c.reference();
  double calls = 100;
  for (const RowFacts* row : compiled) calls = std::max(calls, 10 * *row->pays_after);
  svg::Range y;
  const auto show = [&](double compile_ms, double call_ms) {
    y.add(compile_ms + call_ms), y.add(compile_ms + calls * call_ms);
  };
  show(0, reference.summary.median);
  for (const RowFacts* row : compiled) show(*row->row->compile_ms, row->summary.median);
  y.add(y.lo / 2);  // room for the texts below the curves
  const Axis across = Axis::logarithmic(1, calls);
  Chart chart(across, Axis::logarithmic(y.lo, y.hi), kHeight);
  chart.y_axis(time_tick, 5);
  chart.x_axis([](double n) { return si_tick(n); }, 5, "calls");
  const auto draw = [&](const RowFacts& row, double compile_ms) {
    chart.curve(total_time(compile_ms, row.summary.median, calls),
                "curve " + svg::colour_class(palette.colour(row.row->variant)));
  };
  draw(reference, 0);
  std::string description = "Total time of " + c.name + " over calls, compiling included:";
  for (const RowFacts* row : compiled) {
    draw(*row, *row->row->compile_ms);
    const std::string said = row->row->variant + " pays after " + pays_text(*row);
    description += ' ' + said + '.';
    const double crossing = std::max(1.0, *row->pays_after);
    const double time = *row->row->compile_ms + crossing * row->summary.median;
    chart.marker(crossing, chart.y_at(time), palette.colour(row->row->variant), said);
    // Above on the left, or below on the right, no curve of these two passes.
    const bool on_left = across.at(crossing) > 0.45;
    chart.text(crossing, chart.y_at(time) + (on_left ? -9 : 18),
               on_left ? Anchor::End : Anchor::Start, pays_text(*row), "note", on_left ? -4 : 8);
  }
  return svg::figure(c.name, chart.html(description));
}

}  // namespace

std::string scaling(const std::vector<CaseFacts>& cases, const Palette& palette) {
  std::string out;
  for (const Sweep& sweep : sweeps(cases)) out += scaling_chart(sweep, palette);
  return in_tiles(out);
}

std::string break_even(const std::vector<CaseFacts>& cases, const Palette& palette) {
  std::string out;
  for (const CaseFacts& c : cases) {
    std::vector<const RowFacts*> compiled;
    for (const RowFacts& row : c.rows) {
      if (row.pays_after && std::isfinite(*row.pays_after) && row.summary.median > 0 &&
          row.reference == c.reference()->row)
        compiled.push_back(&row);
    }
    if (!compiled.empty()) out += break_even_chart(c, compiled, palette);
  }
  return in_tiles(out);
}

}  // namespace graft::lab::charts
