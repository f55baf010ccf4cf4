// Charts as inline SVG: axes with round ticks, curves, markers, intervals, bars. Horizontal
// positions are percentages and vertical ones pixels, so a chart follows the width of the page
// while its text keeps its size. Colours come from the page: class "v3" uses the CSS variable --c3.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace graft::lab::svg {

/// Escapes text for element content and quoted attributes, in HTML and XML; control characters that
/// neither may hold become U+FFFD.
std::string escape(std::string_view text);

/// A number for ticks: up to four digits, without trailing zeros: "20", "0.5".
std::string plain(double value);

/// Maps values to positions along one direction.
class Axis {
 public:
  /// Widened to round numbers at both ends, with about `most` round steps.
  static Axis linear(double lo, double hi, int most = 5);
  /// For positive values; widened a little, so that no mark is cut off.
  static Axis logarithmic(double lo, double hi);
  /// 0 at the low end, 1 at the high end.
  double at(double value) const;
  /// Round values on the axis, at most `most` of them (at least one).
  std::vector<double> ticks(int most) const;
  double lo() const { return lo_; }
  double hi() const { return hi_; }

 private:
  Axis(double lo, double hi, bool log) : lo_(lo), hi_(hi), log_(log) {}
  double lo_, hi_;
  bool log_;
};

/// The smallest and largest of the positive, finite values added: what a log axis spans.
struct Range {
  double lo = 0, hi = 0;
  void add(double value);
};

using Label = std::function<std::string(double)>;
using Point = std::pair<double, double>;
enum class Anchor { Start, Middle, End };

inline constexpr int kColours = 8;
/// An estimate for the page's small text; text is not measured.
inline constexpr double kPixelsPerCharacter = 6.6;
/// "v0" to "v7".
std::string colour_class(int colour);
/// Text cut to at most `most` characters; if cut, the last one is an ellipsis.
std::string shortened(std::string_view utf8, size_t most);
/// The shapes that markers refer to; needed once per page.
std::string symbols();
/// `content` under its caption; HTML.
std::string figure(std::string_view caption, const std::string& content);
/// A legend: colour, shape and name of each entry; HTML.
std::string legend(const std::vector<std::pair<int, std::string>>& entries);

/// Functions take x as a value of the x axis and y in pixels from the top, unless they say
/// otherwise.
class Chart {
 public:
  Chart(Axis x, Axis y, int height) : x_(x), y_(y), height_(height) {}

  void x_axis(const Label& label, int most, std::string_view title = "");
  void y_axis(const Label& label, int most, std::string_view title = "");
  double y_at(double value) const { return height_ * (1 - y_.at(value)); }

  void rule(double x, std::string_view classes);
  void segment(double x1, double y1, double x2, double y2, std::string_view classes);
  /// Points are values of both axes.
  void curve(const std::vector<Point>& points, std::string_view classes);
  void bar(double x1, double x2, double y, double thick, std::string_view classes);
  /// `hint`: the tooltip.
  void marker(double x, double y, int colour, std::string_view hint);
  void dots(const std::vector<Point>& points, std::string_view classes);
  void text(double x, double y, Anchor anchor, std::string_view text, std::string_view classes,
            int right = 0);
  /// A heading across the left margin and the chart.
  void heading(double y, std::string_view text);
  /// Text in the margins, which grow with the longest one. `extra` is hidden on a narrow screen.
  void left(double y, std::string_view text, std::string_view classes);
  void right(double y, std::string_view text, std::string_view extra, std::string_view classes);

  /// `description`: the text for readers who do not see the picture.
  std::string html(std::string_view description, std::string_view classes = "") const;

 private:
  std::string across(double x) const;  ///< "12.5%"
  Axis x_, y_;
  int height_;
  int left_ = 10, right_ = 14, right_narrow_ = 14, below_ = 8;  ///< margins in pixels
  std::string body_;
};

}  // namespace graft::lab::svg
