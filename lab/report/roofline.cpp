// Rows against the machine's measured limits.

#include <algorithm>
#include <cmath>

#include "lab/report/charts.h"
#include "lab/report/svg.h"
#include "lab/table.h"
#include "lab/words.h"

namespace graft::lab::charts {
namespace {

using svg::Anchor;
using svg::Axis;
using svg::Chart;

constexpr double kNarrowest = 270;  // pixels across on a phone, for which labels are placed

struct RooflineRow {
  const CaseFacts* of = nullptr;
  const RowFacts* row = nullptr;
  double intensity = 0, flops = 0, bytes = 0, functions = 0;  ///< FLOP/byte; per second
};

std::vector<RooflineRow> roofline_rows(const std::vector<CaseFacts>& cases) {
  std::vector<RooflineRow> out;
  for (const CaseFacts& c : cases) {
    for (const RowFacts& row : c.rows) {
      const Work& work = row.row->work;
      const double seconds = row.summary.median / 1000;
      if (!row.timed() || !(seconds > 0) || (work.flops <= 0 && work.bytes <= 0)) continue;
      out.push_back({&c, &row, work.bytes > 0 ? work.flops / work.bytes : 0, work.flops / seconds,
                     work.bytes / seconds, work.functions / seconds});
    }
  }
  return out;
}

double limit_in(const nlohmann::json& context, const char* name) {
  const auto limits = context.is_object() ? context.find("limits") : context.end();
  if (!context.is_object() || limits == context.end() || !limits->is_object()) return 0;
  const auto value = limits->find(name);
  return value != limits->end() && value->is_number() ? value->get<double>() : 0;
}

struct Box {
  double x1, x2, y;  ///< of a text in a chart of kNarrowest, its base line
};
Box box_of(std::string_view text, double x1, double y) {
  return {x1, x1 + svg::kPixelsPerCharacter * static_cast<double>(display_width(text)), y};
}

/// Names the fastest row of each case, where its text overlaps no other.
void label_points(Chart& chart, const Axis& x, const std::vector<RooflineRow>& rows,
                  std::vector<Box> placed) {
  std::map<const CaseFacts*, const RooflineRow*> fastest;
  for (const RooflineRow& row : rows) {
    const RooflineRow*& best = fastest[row.of];
    if (best == nullptr || row.flops > best->flops) best = &row;
  }
  for (const auto& [of, row] : fastest) {
    const double across = kNarrowest * x.at(row->intensity), down = chart.y_at(row->flops) - 9;
    Box box = box_of(of->name, across, down);
    const double half = (box.x2 - box.x1) / 2;
    box.x1 -= half, box.x2 -= half;
    const bool free = std::none_of(placed.begin(), placed.end(), [&](const Box& other) {
      return box.x1 < other.x2 && other.x1 < box.x2 && std::abs(box.y - other.y) < 14;
    });
    if (!free || box.x1 < -20 || box.x2 > kNarrowest + 10) continue;
    placed.push_back(box);
    chart.text(row->intensity, down, Anchor::Middle, of->name, "note");
  }
}

std::string roofline_picture(const std::vector<RooflineRow>& all, double bandwidth, double peak,
                             const Palette& palette) {
  std::vector<RooflineRow> rows;
  svg::Range x, y;
  for (const RooflineRow& row : all) {
    if (!(row.intensity > 0)) continue;
    rows.push_back(row);
    x.add(row.intensity), y.add(row.flops);
  }
  if (rows.empty() || !(bandwidth > 0) || !(peak > 0)) return "";
  const double ridge = peak / bandwidth;
  x.add(std::min(x.lo, ridge) / 2), x.add(2 * std::max(x.hi, ridge));
  y.add(peak * 1.5), y.add(std::min(y.lo / 2, bandwidth * x.lo));
  const Axis across = Axis::logarithmic(x.lo, x.hi);
  Chart chart(across, Axis::logarithmic(y.lo, y.hi), 340);
  chart.y_axis([](double v) { return si_tick(v); }, 6, "FLOP/s");
  chart.x_axis([](double v) { return svg::plain(v); }, 6, "FLOP per byte");
  chart.curve({{x.lo, bandwidth * x.lo}, {ridge, peak}, {x.hi, peak}}, "roof");
  const std::string limit = si_text(peak) + "FLOP/s";
  const double above = chart.y_at(peak) - 7;
  chart.text(x.hi, above, Anchor::End, limit, "note");
  for (const RooflineRow& row : rows)
    chart.marker(
        row.intensity, chart.y_at(row.flops), palette.colour(row.row->row->variant),
        row.of->name + ", " + row.row->row->variant + ": " + si_text(row.flops) + "FLOP/s");
  label_points(chart, across, rows, {box_of(limit, kNarrowest - box_of(limit, 0, 0).x2, above)});
  return chart.html(
      "Roofline: computed FLOP/s over FLOP per byte of each case and variant, below "
      "the machine's measured limits of " +
      si_text(bandwidth) + "B/s and " + si_text(peak) + "FLOP/s");
}

/// A cell with a bar as long as the share.
std::string meter(double share, int colour) {
  const double percent = 100 * std::clamp(share, 0.0, 1.0);
  return "<td class=\"meter\"><span class=\"" + svg::colour_class(colour) +
         "\" style=\"width:" + svg::plain(percent) + "%\"></span></td>";
}

}  // namespace

std::string roofline(const std::vector<CaseFacts>& cases, const nlohmann::json& context,
                     const Palette& palette) {
  const std::vector<RooflineRow> rows = roofline_rows(cases);
  if (rows.empty()) return "";
  const double bandwidth = limit_in(context, "bytes_per_s");
  const double peak = limit_in(context, "flops_per_s");
  const double functions = limit_in(context, "functions_per_s");
  const auto cell = [](const std::string& text) { return "<td class=\"n\">" + text + "</td>"; };
  const auto rate = [&](double value, const char* unit) {
    return cell(value > 0 ? si_text(value) + unit : "");
  };
  std::string table =
      "<div class=\"scroll\"><table><thead><tr><th>Case</th><th>Variant</th>"
      "<th class=\"n\">FLOP per byte</th><th class=\"n\">FLOP/s</th><th class=\"n\">Bytes/s</th>"
      "<th class=\"n\">Of the limit</th><th></th></tr></thead><tbody>\n";
  for (const RooflineRow& row : rows) {
    const double of_peak = peak > 0 ? row.flops / peak : 0;
    const double of_bandwidth = bandwidth > 0 ? row.bytes / bandwidth : 0;
    const double of_functions = functions > 0 ? row.functions / functions : 0;
    const double share = std::max({of_peak, of_bandwidth, of_functions});
    const char* what = share == of_bandwidth ? "memory"
                       : share == of_peak    ? "compute"
                                             : "functions";
    table += "<tr><th scope=\"row\">" + svg::escape(row.of->name) + "</th><td>" +
             svg::escape(row.row->row->variant) + "</td>" +
             cell(row.intensity > 0 ? number(row.intensity) : "") + rate(row.flops, "FLOP/s") +
             rate(row.bytes, "B/s") + cell(share > 0 ? number(100 * share) + " % of " + what : "") +
             meter(share, palette.colour(row.row->row->variant)) + "</tr>\n";
  }
  return roofline_picture(rows, bandwidth, peak, palette) + table + "</tbody></table></div>\n";
}

}  // namespace graft::lab::charts
