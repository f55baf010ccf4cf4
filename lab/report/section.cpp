#include "lab/report/section.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "lab/report/cells.h"
#include "lab/report/svg.h"
#include "lab/words.h"

namespace graft::lab {
namespace {

using nlohmann::json;

json number_or_null(double value) {
  return std::isfinite(value) ? json(value) : json();
}
double number_of(const json& value) {
  return value.is_null() ? std::nan("") : value.get<double>();
}

json figure_json(const Figure& figure) {
  json series = json::array();
  for (const Figure::Series& s : figure.series) {
    json points = json::array(), values = json::array();
    for (const auto& [x, y] : s.points) points.push_back({number_or_null(x), number_or_null(y)});
    for (const double value : s.values) values.push_back(number_or_null(value));
    series.push_back({{"name", s.name}, {"points", points}, {"values", values}});
  }
  return {{"caption", figure.caption}, {"labels", figure.labels}, {"series", series},
          {"x_title", figure.x_title}, {"unit", figure.unit},     {"log_x", figure.log_x},
          {"log_y", figure.log_y}};
}

Figure figure_of(const json& from) {
  Figure out{from.at("caption").get<std::string>(),
             from.at("labels").get<std::vector<std::string>>()};
  for (const json& s : from.at("series")) {
    Figure::Series& series = out.series.emplace_back();
    series.name = s.at("name").get<std::string>();
    for (const json& point : s.at("points"))
      series.points.emplace_back(number_of(point.at(0)), number_of(point.at(1)));
    for (const json& value : s.at("values")) series.values.push_back(number_of(value));
  }
  out.x_title = from.at("x_title").get<std::string>();
  out.unit = from.at("unit").get<std::string>();
  out.log_x = from.at("log_x").get<bool>();
  out.log_y = from.at("log_y").get<bool>();
  return out;
}

std::string with_unit(double value, const std::string& unit) {
  return number(value) + (unit.empty() || unit == "x" ? "" : " ") + unit;
}

/// One row per label and series; all bars have one scale.
std::string bars(const Figure& figure) {
  constexpr int kRow = 22, kHeading = 30, kBelow = 8;
  double most = 0;
  int rows = 0;
  for (size_t i = 0; i < figure.labels.size(); ++i)
    for (const Figure::Series& s : figure.series)
      if (i < s.values.size() && std::isfinite(s.values[i])) {
        most = std::max(most, s.values[i]);
        ++rows;
      }
  if (rows == 0) return "";
  const int height = rows * kRow + static_cast<int>(figure.labels.size()) * (kHeading + kBelow);
  svg::Chart chart(svg::Axis::linear(0, most > 0 ? most : 1), svg::Axis::linear(0, 1), height);
  double y = 0;
  for (size_t i = 0; i < figure.labels.size(); ++i) {
    chart.heading(y + kHeading - 8, figure.labels[i]);
    y += kHeading;
    for (size_t k = 0; k < figure.series.size(); ++k) {
      const Figure::Series& s = figure.series[k];
      if (i >= s.values.size() || !std::isfinite(s.values[i])) continue;
      const double middle = y + kRow / 2.0;
      chart.left(middle, s.name, "label");
      chart.bar(0, std::max(0.0, s.values[i]), middle, 12,
                "fill " + svg::colour_class(static_cast<int>(k) % svg::kColours));
      chart.right(middle, with_unit(s.values[i], figure.unit), "", "value");
      y += kRow;
    }
    y += kBelow;
  }
  return svg::figure(figure.caption, chart.html(figure.caption, "rows"));
}

std::string lines(const Figure& figure) {
  svg::Range x, y;
  double lo = 0, hi = 0, first = 0, last = 0;
  bool any = false;
  for (const Figure::Series& s : figure.series)
    for (const auto& [at, value] : s.points) {
      if (!std::isfinite(at) || !std::isfinite(value)) continue;
      x.add(at), y.add(value);
      lo = any ? std::min(lo, value) : value, hi = any ? std::max(hi, value) : value;
      first = any ? std::min(first, at) : at, last = any ? std::max(last, at) : at;
      any = true;
    }
  if (!any) return "";
  const auto axis = [](bool log, double from, double to) {
    return log && from > 0 ? svg::Axis::logarithmic(from, to) : svg::Axis::linear(from, to);
  };
  svg::Chart chart(axis(figure.log_x, first, last), axis(figure.log_y, lo, hi), 260);
  chart.y_axis(
      [&](double v) { return svg::plain(v) + (figure.unit.empty() ? "" : ' ' + figure.unit); }, 6);
  chart.x_axis([](double v) { return svg::plain(v); }, 5, figure.x_title);
  std::vector<std::pair<int, std::string>> legend;
  for (size_t k = 0; k < figure.series.size(); ++k) {
    const int colour = static_cast<int>(k) % svg::kColours;
    const Figure::Series& s = figure.series[k];
    chart.curve(s.points, "curve " + svg::colour_class(colour));
    constexpr size_t kMarked = 24;
    if (s.points.size() <= kMarked)
      for (const auto& [at, value] : s.points)
        chart.marker(at, chart.y_at(value), colour,
                     s.name + ", " + svg::plain(at) + ": " + with_unit(value, figure.unit));
    legend.emplace_back(colour, s.name);
  }
  return svg::figure(figure.caption, svg::legend(legend) + chart.html(figure.caption));
}

std::string table_html(const Table& table) {
  std::string out = "<div class=\"scroll\"><table class=\"sortable\">\n<thead><tr>";
  const auto right = [&](size_t i) { return table.columns()[i].align == Align::Right; };
  for (size_t i = 0; i < table.columns().size(); ++i)
    out += tables::header(table.columns()[i].header, right(i));
  out += "</tr></thead>\n<tbody>\n";
  for (const std::vector<Cell>& row : table.rows()) {
    if (row.empty()) continue;
    out += "<tr>";
    for (size_t i = 0; i < table.columns().size(); ++i) {
      tables::Shown shown{i < row.size() ? row[i].text : ""};
      if (right(i) && i < row.size()) {
        char* end = nullptr;
        const double value = std::strtod(row[i].text.c_str(), &end);
        if (end != row[i].text.c_str()) shown.key = value;
      }
      if (i < row.size() && row[i].style == Style::Good) shown.classes = "is-faster";
      if (i < row.size() && row[i].style == Style::Bad) shown.classes = "is-slower";
      out += tables::cell(shown, right(i));
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

}  // namespace

json to_json(const Section& section) {
  json columns = json::array(), rows = json::array(), figures = json::array();
  for (const Column& column : section.table.columns())
    columns.push_back({{"header", column.header}, {"right", column.align == Align::Right}});
  for (const std::vector<Cell>& row : section.table.rows()) {
    json cells = json::array();
    for (const Cell& cell : row)
      cells.push_back(cell.style == Style::Plain
                          ? json(cell.text)
                          : json::array({cell.text, static_cast<int>(cell.style)}));
    rows.push_back(cells);
  }
  for (const Figure& figure : section.figures) figures.push_back(figure_json(figure));
  return {{"id", section.id},      {"title", section.title}, {"says", section.says},
          {"columns", columns},    {"rows", rows},           {"figures", figures},
          {"notes", section.notes}};
}

Section section_from_json(const json& from) {
  std::vector<Column> columns;
  for (const json& column : from.at("columns"))
    columns.push_back({column.at("header").get<std::string>(),
                       column.at("right").get<bool>() ? Align::Right : Align::Left});
  Section out{from.at("id").get<std::string>(), from.at("title").get<std::string>(),
              from.at("says").get<std::string>(), Table(std::move(columns))};
  for (const json& row : from.at("rows")) {
    std::vector<Cell> cells;
    for (const json& cell : row)
      if (cell.is_string())
        cells.emplace_back(cell.get<std::string>());
      else
        cells.emplace_back(cell.at(0).get<std::string>(),
                           static_cast<Style>(cell.at(1).get<int>()));
    cells.empty() ? out.table.rule() : out.table.row(std::move(cells));
  }
  for (const json& figure : from.at("figures")) out.figures.push_back(figure_of(figure));
  out.notes = from.at("notes").get<std::vector<std::string>>();
  return out;
}

std::vector<Section> sections_of(const json& context) {
  std::vector<Section> out;
  if (context.is_object() && context.contains("sections"))
    for (const json& section : context.at("sections")) out.push_back(section_from_json(section));
  return out;
}

void print(std::ostream& out, const Section& section, bool colour) {
  out << styled(section.title, Style::Bold, colour) << '\n';
  if (!section.says.empty()) out << section.says << '\n';
  if (!section.table.empty()) {
    out << '\n';
    section.table.print(out, colour);
  }
  for (const std::string& note : section.notes) out << "  " << note << '\n';
  out << '\n';
}

std::string html_of(const Section& section) {
  std::string figures, out;
  for (const Figure& figure : section.figures)
    figures += figure.labels.empty() ? lines(figure) : bars(figure);
  if (!figures.empty()) out += "<div class=\"tiles large\">\n" + figures + "</div>\n";
  if (!section.table.empty()) out += table_html(section.table);
  if (!section.notes.empty()) {
    out += "<ul class=\"notes\">\n";
    for (const std::string& note : section.notes) out += "<li>" + svg::escape(note) + "</li>\n";
    out += "</ul>\n";
  }
  return out;
}

}  // namespace graft::lab
