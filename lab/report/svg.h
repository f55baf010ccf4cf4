// Charts as inline SVG: axes with round ticks, curves, markers, intervals, bars. Positions across
// are percentages and positions down are pixels, so a chart follows the width of its place while
// its text keeps its size. Colours are the page's: class "v3" stands for the CSS variable --c3.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace graft::lab::svg {

/// For element content and quoted attributes, in HTML and in XML; control characters that neither
/// may hold become U+FFFD.
std::string escape(std::string_view text);

/// For ticks: up to four digits, without trailing zeros: "20", "0.5".
std::string plain(double value);

/// Where values lie along one direction.
class Axis {
 public:
  /// Widened to round ends, about `most` steps apart.
  static Axis linear(double lo, double hi, int most = 5);
  /// Of positive values; widened a little, so that no mark is cut off.
  static Axis logarithmic(double lo, double hi);
  /// 0 at the low end, 1 at the high end.
  double at(double value) const;
  /// Round values within, at most `most` of them (at least one).
  std::vector<double> ticks(int most) const;
  double lo() const { return lo_; }
  double hi() const { return hi_; }

 private:
  Axis(double lo, double hi, bool log) : lo_(lo), hi_(hi), log_(log) {}
  double lo_, hi_;
  bool log_;
};

/// The smallest and largest of the positive, finite values that it was shown: what a log axis
/// spans.
struct Range {
  double lo = 0, hi = 0;
  void add(double value);
};

using Label = std::function<std::string(double)>;
using Point = std::pair<double, double>;
enum class Anchor { Start, Middle, End };

inline constexpr int kColours = 8;
/// What the page's small text takes, about: no text is measured here.
inline constexpr double kPixelsPerCharacter = 6.6;
/// "v0" to "v7".
std::string colour_class(int colour);
/// At most `most` characters, the last one an ellipsis where some are left out.
std::string shortened(std::string_view utf8, size_t most);
/// The shapes that markers refer to; once on a page.
std::string symbols();
/// `content` under its caption; HTML.
std::string figure(std::string_view caption, const std::string& content);
/// Colour, shape and name of each; HTML.
std::string legend(const std::vector<std::pair<int, std::string>>& entries);

/// Marks take x in the axis' values and y in pixels from the top, unless they say otherwise.
class Chart {
 public:
  Chart(Axis x, Axis y, int height) : x_(x), y_(y), height_(height) {}

  void x_axis(const Label& label, int most, std::string_view title = "");
  void y_axis(const Label& label, int most, std::string_view title = "");
  double y_at(double value) const { return height_ * (1 - y_.at(value)); }

  void rule(double x, std::string_view classes);
  void segment(double x1, double y1, double x2, double y2, std::string_view classes);
  /// Points in both axes' values.
  void curve(const std::vector<Point>& points, std::string_view classes);
  void bar(double x1, double x2, double y, double thick, std::string_view classes);
  /// `hint` is shown when the mouse rests on it.
  void marker(double x, double y, int colour, std::string_view hint);
  void dots(const std::vector<Point>& points, std::string_view classes);
  void text(double x, double y, Anchor anchor, std::string_view text, std::string_view classes,
            int right = 0);
  /// Across the left margin and the chart.
  void heading(double y, std::string_view text);
  /// In the margins, which grow with the longest text. `extra` is left out on a narrow screen.
  void left(double y, std::string_view text, std::string_view classes);
  void right(double y, std::string_view text, std::string_view extra, std::string_view classes);

  /// `description` is what a reader who sees no picture gets.
  std::string html(std::string_view description, std::string_view classes = "") const;

 private:
  std::string across(double x) const;  ///< "12.5%"
  Axis x_, y_;
  int height_;
  int left_ = 10, right_ = 14, right_narrow_ = 14, below_ = 8;  ///< margins in pixels
  std::string body_;
};

}  // namespace graft::lab::svg
