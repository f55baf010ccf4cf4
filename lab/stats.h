// Statistics of timing samples. Timings are skewed and have outliers, so medians and ranks say more
// than means.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace graft::lab {

// NaN for an empty sample, each of them.
double mean(std::span<const double> x);
/// Sample standard deviation (n - 1); 0 for one value.
double stddev(std::span<const double> x);
/// Linear interpolation between order statistics (numpy's default); q in [0, 1].
double quantile(std::span<const double> x, double q);
double median(std::span<const double> x);
/// The same by selection, for resampling thousands of times. Reorders x, which must not be empty.
double median_in_place(std::vector<double>& x);
/// Of positive values.
double geometric_mean(std::span<const double> x);

struct Ratio {
  double ratio = 0;  ///< median(a) / median(b)
  double lo = 0;     ///< 95 % percentile bootstrap interval
  double hi = 0;
};
/// median(a) / median(b) with its uncertainty; for a speed-up, a is the slower side. One seed gives
/// one interval.
Ratio bootstrap_ratio(std::span<const double> a, std::span<const double> b, uint64_t seed = 0);

/// 95 % percentile bootstrap interval of the median.
struct Interval {
  double lo = 0, hi = 0;
};
Interval bootstrap_median(std::span<const double> x, uint64_t seed = 0);

/// The statistics of a sample that tables show; NaN for an empty one.
struct Summary {
  size_t count = 0;
  double median = 0, mean = 0, stddev = 0;
  double cv = 0;  ///< stddev / mean
  double min = 0, max = 0, p50 = 0, p90 = 0, p99 = 0;
  Interval ci;       ///< of the median, 95 %
  int outliers = 0;  ///< by Tukey's fences; none is removed
};
Summary summarise(std::span<const double> x);

struct RankTest {
  double u = 0;  ///< pairs (a, b) with a > b; ties count half
  /// Two-sided: the chance of a u as extreme as this if a and b had one distribution.
  double p = 1;
};
/// The Mann-Whitney test: exact for small samples without ties, else the normal approximation with
/// tie correction.
RankTest mann_whitney(std::span<const double> a, std::span<const double> b);

/// Values outside Tukey's fences: quartiles -/+ 1.5 (mild) or 3 (severe) interquartile ranges.
struct Outliers {
  int low_severe = 0, low_mild = 0, high_mild = 0, high_severe = 0;
  int total() const { return low_severe + low_mild + high_mild + high_severe; }
};
Outliers tukey_outliers(std::span<const double> x);

}  // namespace graft::lab
