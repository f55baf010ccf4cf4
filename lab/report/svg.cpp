#include "lab/report/svg.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "lab/table.h"
#include "lab/words.h"

namespace graft::lab::svg {
namespace {

/// Up to two decimals, without trailing zeros.
std::string brief(double value) {
  if (!std::isfinite(value)) return "0";
  char text[40];
  std::snprintf(text, sizeof text, "%.2f", value);
  std::string out = text;
  while (out.back() == '0') out.pop_back();
  if (out.back() == '.') out.pop_back();
  return out == "-0" ? "0" : out;
}

std::string classes_of(std::string_view classes) {
  return classes.empty() ? "" : " class=\"" + std::string(classes) + '"';
}

int width_of(std::string_view text) {
  return static_cast<int>(
      std::ceil(kPixelsPerCharacter * static_cast<double>(display_width(text))));
}

const char* name(Anchor anchor) {
  return anchor == Anchor::Start ? "start" : anchor == Anchor::Middle ? "middle" : "end";
}

/// 1, 2 or 5 times a power of ten, at least `least`.
double round_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

std::vector<double> linear_ticks(double lo, double hi, int most) {
  const double step = round_step((hi - lo) / std::max(most - 1, 1));
  std::vector<double> out;
  for (double i = std::ceil(lo / step - 1e-9); i * step <= hi + step * 1e-9; ++i)
    out.push_back(i * step + 0.0);  // no negative zero
  return out;
}

/// `factors` times the powers of ten that are multiples of `every`.
std::vector<double> log_ticks(double lo, double hi, const std::vector<double>& factors, int every) {
  std::vector<double> out;
  for (int power = static_cast<int>(std::floor(std::log10(lo))); std::pow(10, power) <= hi;
       ++power) {
    if (power % every != 0) continue;
    for (const double factor : factors) {
      const double tick = factor * std::pow(10, power);
      if (tick >= lo * (1 - 1e-9) && tick <= hi * (1 + 1e-9)) out.push_back(tick);
    }
  }
  return out;
}

}  // namespace

std::string escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        const auto code = static_cast<unsigned char>(c);
        if ((code < 0x20 && c != '\t' && c != '\n' && c != '\r') || code == 0x7F) {
          out += "\xEF\xBF\xBD";
        } else {
          out += c;
        }
    }
  }
  return out;
}

std::string plain(double value) {
  std::string out = number(value, 4);
  if (out.find('.') == std::string::npos) return out;
  while (out.back() == '0') out.pop_back();
  if (out.back() == '.') out.pop_back();
  return out;
}

Axis Axis::linear(double lo, double hi, int most) {
  if (!(hi > lo)) hi = lo + std::max(std::abs(lo), 1e-300);
  const double step = round_step((hi - lo) / std::max(most, 1));
  return {std::floor(lo / step + 1e-9) * step, std::ceil(hi / step - 1e-9) * step, false};
}

Axis Axis::logarithmic(double lo, double hi) {
  constexpr double kRoom = 0.06, kLeast = 0.02;  // of the width, and of a decade
  const double room = std::max(kRoom * std::log10(hi / lo), kLeast);
  return {lo * std::pow(10, -room), hi * std::pow(10, room), true};
}

void Range::add(double value) {
  if (!(value > 0) || !std::isfinite(value)) return;
  lo = lo == 0 ? value : std::min(lo, value);
  hi = std::max(hi, value);
}

double Axis::at(double value) const {
  return log_ ? std::log(value / lo_) / std::log(hi_ / lo_) : (value - lo_) / (hi_ - lo_);
}

std::vector<double> Axis::ticks(int most) const {
  constexpr double kAlmostLinear = 3;  // a smaller range has too few of 1, 2, 5
  const auto fits = [most](const std::vector<double>& ticks) {
    return !ticks.empty() && ticks.size() <= static_cast<size_t>(std::max(most, 1));
  };
  if (log_ && hi_ / lo_ >= kAlmostLinear) {
    for (const auto& factors : {std::vector<double>{1, 1.5, 2, 3, 5, 7}, {1, 2, 5}, {1, 3}, {1}}) {
      if (auto ticks = log_ticks(lo_, hi_, factors, 1); fits(ticks)) return ticks;
    }
    for (int every = 2; every < 100; ++every) {
      if (auto ticks = log_ticks(lo_, hi_, {1}, every); fits(ticks)) return ticks;
    }
  }
  for (int wanted = 2 * most;; --wanted) {
    if (auto ticks = linear_ticks(lo_, hi_, wanted); fits(ticks) || wanted <= 1) return ticks;
  }
}

std::string colour_class(int colour) {
  return 'v' + std::to_string(colour % kColours);
}

std::string shortened(std::string_view utf8, size_t most) {
  if (display_width(utf8) <= most) return std::string(utf8);
  std::string out(utf8);
  while (!out.empty() && display_width(out) + 1 > most) {
    while (!out.empty() && (out.back() & 0xC0) == 0x80) out.pop_back();
    if (!out.empty()) out.pop_back();
  }
  return out + "…";
}

std::string symbols() {
  static constexpr const char* kPaths[kColours] = {
      "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
      "M0-5.4 5.4 0 0 5.4-5.4 0z",
      "M-3.8-3.8h7.6v7.6h-7.6z",
      "M0-5 4.8 3.6h-9.6z",
      "M0 5 4.8-3.6h-9.6z",
      "M-4.6-1.5h3.1v-3.1h3v3.1h3.1v3h-3.1v3.1h-3v-3.1h-3.1z",
      "M-2.6-4.4h5.2l2.6 4.4-2.6 4.4h-5.2l-2.6-4.4z",
      "M-5-2.6h10v5.2h-10z"};
  std::string out = "<svg width=\"0\" height=\"0\" class=\"symbols\" aria-hidden=\"true\"><defs>";
  for (int i = 0; i < kColours; ++i)
    out += "<path id=\"m" + std::to_string(i) + "\" d=\"" + kPaths[i] + "\"/>";
  return out + "</defs></svg>\n";
}

std::string figure(std::string_view caption, const std::string& content) {
  return "<figure><figcaption>" + escape(caption) + "</figcaption>" + content + "</figure>\n";
}

std::string legend(const std::vector<std::pair<int, std::string>>& entries) {
  std::string out = "<ul class=\"legend\">";
  for (const auto& [colour, entry] : entries) {
    const std::string shape = std::to_string(colour % kColours);
    out += "<li><svg class=\"key\" aria-hidden=\"true\"><use href=\"#m" + shape +
           "\" x=\"7\" y=\"7\" class=\"fill v" + shape + "\"/></svg>" + escape(entry) + "</li>";
  }
  return out + "</ul>\n";
}

std::string Chart::across(double x) const {
  return brief(100 * std::clamp(x_.at(x), -1.0, 2.0)) + '%';
}

constexpr int kTall = 480;  // pixels; from there on an axis' texts stand above too

void Chart::x_axis(const Label& label, int most, std::string_view title) {
  for (const double tick : x_.ticks(most)) {
    rule(tick, "grid");
    if (height_ > kTall) text(tick, -10, Anchor::Middle, label(tick), "tick");
    text(tick, height_ + 16, Anchor::Middle, label(tick), "tick");
  }
  below_ = title.empty() ? 26 : 44;
  if (title.empty()) return;
  body_ += "<text x=\"100%\" y=\"" + std::to_string(height_ + 34) +
           "\" text-anchor=\"end\" class=\"title\">" + escape(title) + "</text>";
}

void Chart::y_axis(const Label& label, int most, std::string_view title) {
  for (const double tick : y_.ticks(most)) {
    const double y = y_at(tick);
    body_ += "<line x1=\"0\" x2=\"100%\" y1=\"" + brief(y) + "\" y2=\"" + brief(y) +
             "\" class=\"grid\"/>";
    left(y, label(tick), "tick");
  }
  if (title.empty()) return;
  body_ +=
      "<text x=\"-8\" y=\"-12\" text-anchor=\"start\" class=\"title\">" + escape(title) + "</text>";
}

void Chart::rule(double x, std::string_view classes) {
  segment(x, 0, x, height_, classes);
}

void Chart::segment(double x1, double y1, double x2, double y2, std::string_view classes) {
  body_ += "<line x1=\"" + across(x1) + "\" y1=\"" + brief(y1) + "\" x2=\"" + across(x2) +
           "\" y2=\"" + brief(y2) + '"' + classes_of(classes) + "/>";
}

void Chart::curve(const std::vector<Point>& points, std::string_view classes) {
  constexpr double kWide = 1000;  // stretched to the chart's width
  const std::string height = std::to_string(height_);
  body_ += "<svg viewBox=\"0 0 1000 " + height + "\" width=\"100%\" height=\"" + height +
           "\" preserveAspectRatio=\"none\"><polyline vector-effect=\"non-scaling-stroke\"" +
           classes_of(classes) + " points=\"";
  for (const auto& [x, y] : points) body_ += brief(kWide * x_.at(x)) + ',' + brief(y_at(y)) + ' ';
  body_ += "\"/></svg>";
}

void Chart::bar(double x1, double x2, double y, double thick, std::string_view classes) {
  body_ += "<rect x=\"" + across(x1) + "\" y=\"" + brief(y - thick / 2) + "\" width=\"" +
           brief(100 * (x_.at(x2) - x_.at(x1))) + "%\" height=\"" + brief(thick) + "\" rx=\"1.5\"" +
           classes_of(classes) + "/>";
}

void Chart::marker(double x, double y, int colour, std::string_view hint) {
  const std::string shape = std::to_string(colour % kColours);
  body_ += "<use href=\"#m" + shape + "\" x=\"" + across(x) + "\" y=\"" + brief(y) +
           "\" class=\"fill v" + shape + "\"><title>" + escape(hint) + "</title></use>";
}

void Chart::dots(const std::vector<Point>& points, std::string_view classes) {
  body_ += "<g" + classes_of(classes) + '>';
  for (const auto& [x, y] : points)
    body_ += "<circle cx=\"" + across(x) + "\" cy=\"" + brief(y) + "\" r=\"2\"/>";
  body_ += "</g>";
}

void Chart::text(double x, double y, Anchor anchor, std::string_view text, std::string_view classes,
                 int right) {
  body_ += "<text x=\"" + across(x) + "\" y=\"" + brief(y) + '"' +
           (right != 0 ? " dx=\"" + std::to_string(right) + '"' : "") + " text-anchor=\"" +
           name(anchor) + '"' + classes_of(classes) + '>' + escape(text) + "</text>";
}

void Chart::heading(double y, std::string_view text) {
  body_ += "<text x=\"0\" y=\"" + brief(y) + "\" class=\"heading\">" + escape(text) + "</text>";
}

void Chart::left(double y, std::string_view text, std::string_view classes) {
  constexpr size_t kMost = 20;
  const std::string shown = shortened(text, kMost);
  left_ = std::max(left_, width_of(shown) + 12);
  body_ += "<text x=\"-8\" y=\"" + brief(y + 4) + "\" text-anchor=\"end\"" + classes_of(classes) +
           '>' + escape(shown) + "</text>";
}

void Chart::right(double y, std::string_view text, std::string_view extra,
                  std::string_view classes) {
  right_narrow_ = std::max(right_narrow_, width_of(text) + 12);
  right_ = std::max(right_, width_of(text) + width_of(extra) + 18);
  body_ += "<text x=\"100%\" dx=\"10\" y=\"" + brief(y + 4) + '"' + classes_of(classes) + '>' +
           escape(text);
  if (!extra.empty()) body_ += "<tspan class=\"extra\"> " + escape(extra) + "</tspan>";
  body_ += "</text>";
}

std::string Chart::html(std::string_view description, std::string_view classes) const {
  const auto pixels = [](const char* name, int value) {
    return std::string(name) + ':' + std::to_string(value) + "px;";
  };
  return "<svg class=\"chart " + std::string(classes) + "\" style=\"" + pixels("height", height_) +
         pixels("--left", left_) + pixels("--right", right_) +
         pixels("--right-narrow", right_narrow_) + pixels("--below", below_) +
         "\" role=\"img\" aria-label=\"" + escape(description) + "\">" + body_ + "</svg>\n";
}

}  // namespace graft::lab::svg
