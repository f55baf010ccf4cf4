// Samples as strips whose thickness follows their density.

#include <algorithm>
#include <cmath>

#include "lab/report/charts.h"
#include "lab/report/svg.h"

namespace graft::lab::charts {
namespace {

using svg::Axis;
using svg::Chart;

constexpr int kStrip = 36;            // pixels from one to the next
constexpr double kHalf = 11;          // of the thickest place
constexpr size_t kMostInliers = 140;  // drawn of a variant: more would only make the page large

struct Drawn {
  std::vector<double> inliers, outliers;
};

/// Tukey's fences; of the inliers an even selection by rank.
Drawn select(const std::vector<double>& samples) {
  std::vector<double> sorted = samples;
  std::sort(sorted.begin(), sorted.end());
  const double low = quantile(sorted, 0.25), high = quantile(sorted, 0.75);
  const double fence = 1.5 * (high - low);
  std::vector<double> inliers;
  Drawn out;
  for (const double x : sorted)
    (x < low - fence || x > high + fence ? out.outliers : inliers).push_back(x);
  const size_t count = std::min(inliers.size(), kMostInliers);
  for (size_t i = 0; i < count; ++i)
    out.inliers.push_back(
        inliers[count == inliers.size() ? i : i * (inliers.size() - 1) / (count - 1)]);
  return out;
}

/// 0.5, 0.25, 0.75, 0.125, …: spreads points evenly without chance.
double van_der_corput(size_t index) {
  double out = 0, digit = 0.5;
  for (size_t i = index + 1; i > 0; i /= 2, digit /= 2) out += (i % 2 != 0) ? digit : 0;
  return out;
}

/// Places the points around `middle`, further out where there are more of them.
std::vector<svg::Point> spread(const std::vector<double>& values, const Axis& axis, double middle) {
  constexpr int kBins = 48;
  std::vector<double> bins(kBins, 0);
  const auto bin = [&](double x) {
    return std::clamp(static_cast<int>(axis.at(x) * kBins), 0, kBins - 1);
  };
  for (const double x : values) ++bins[static_cast<size_t>(bin(x))];
  const double most = *std::max_element(bins.begin(), bins.end());
  std::vector<svg::Point> out;
  for (size_t i = 0; i < values.size(); ++i) {
    const double share = bins[static_cast<size_t>(bin(values[i]))] / most;
    out.emplace_back(values[i], middle + 2 * kHalf * (van_der_corput(i) - 0.5) * share);
  }
  return out;
}

/// What a strip shows: time, or time over the variant's own median.
struct Strip {
  const RowFacts* row;
  double unit;  ///< milliseconds
  std::vector<double> values() const {
    std::vector<double> out;
    for (const double ms : row->row->samples_ms) out.push_back(ms / unit);
    return out;
  }
};

/// Times relative to each variant's own median where the medians lie far apart: on one scale, even
/// a logarithmic one, every strip would be too thin to see.
std::vector<Strip> strips_of(const CaseFacts& c, bool& relative) {
  constexpr double kFarApart = 1.6;
  std::vector<Strip> out;
  double lo = 0, hi = 0;
  for (const RowFacts& row : c.rows) {
    if (!row.timed()) continue;
    lo = out.empty() ? row.summary.median : std::min(lo, row.summary.median);
    hi = std::max(hi, row.summary.median);
    out.push_back({&row, 1});
  }
  relative = lo > 0 && hi / lo > kFarApart;
  if (relative) {
    for (Strip& strip : out) strip.unit = strip.row->summary.median;
  }
  return out;
}

Axis axis_for(const std::vector<Strip>& strips) {
  constexpr double kLogFrom = 3;  // an outlier should not flatten the rest
  double lo = 0, hi = 0;
  for (size_t i = 0; i < strips.size(); ++i) {
    const Summary& s = strips[i].row->summary;
    lo = i == 0 ? s.min / strips[i].unit : std::min(lo, s.min / strips[i].unit);
    hi = std::max(hi, s.max / strips[i].unit);
  }
  return lo > 0 && hi / lo > kLogFrom ? Axis::logarithmic(lo, hi) : Axis::linear(lo, hi, 6);
}

void draw(Chart& chart, const Axis& axis, const Strip& strip, int colour, double middle) {
  const std::vector<double> values = strip.values();
  const std::string v = svg::colour_class(colour);
  const Drawn drawn = select(values);
  chart.left(middle, strip.row->row->variant, "label");
  chart.bar(quantile(values, 0.25), quantile(values, 0.75), middle, 2 * kHalf, "box " + v);
  chart.dots(spread(drawn.inliers, axis, middle), "dots " + v);
  std::vector<svg::Point> far;
  for (const double x : drawn.outliers) far.emplace_back(x, middle);
  if (!far.empty()) chart.dots(far, "outliers " + v);
  const double at = median(values);
  chart.segment(at, middle - kHalf - 2, at, middle + kHalf + 2, "median " + v);
  chart.right(middle, time_text(strip.row->summary.median), "", "value");
}

}  // namespace

std::string distributions(const std::vector<CaseFacts>& cases, const Palette& palette) {
  std::string out;
  for (const CaseFacts& c : cases) {
    bool relative = false;
    const std::vector<Strip> strips = strips_of(c, relative);
    if (strips.empty()) continue;
    const Axis axis = axis_for(strips);
    Chart chart(axis, Axis::linear(0, 1), kStrip * static_cast<int>(strips.size()));
    if (relative) {
      chart.x_axis([](double share) { return svg::plain(share) + 'x'; }, 5, "of its own median");
    } else {
      chart.x_axis(time_tick, 4);
    }
    std::string description = "Samples of " + c.name + ':';
    for (size_t i = 0; i < strips.size(); ++i) {
      const RowFacts& row = *strips[i].row;
      draw(chart, axis, strips[i], palette.colour(row.row->variant),
           kStrip * (static_cast<double>(i) + 0.5));
      description +=
          (i > 0 ? "; " : " ") + row.row->variant + ", median " + time_text(row.summary.median);
    }
    out += svg::figure(c.name, chart.html(description, "rows"));
  }
  return out.empty() ? "" : "<div class=\"tiles\">\n" + out + "</div>\n";
}

}  // namespace graft::lab::charts
