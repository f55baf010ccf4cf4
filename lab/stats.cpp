#include "lab/stats.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace graft::lab {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr int kResamples = 2000;
// Up to this many values per side, the distribution of U is counted out.
constexpr size_t kExactRanks = 20;

double quantile_sorted(std::span<const double> sorted, double q) {
  const double at = std::clamp(q, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

std::vector<double> sorted(std::span<const double> x) {
  std::vector<double> copy(x.begin(), x.end());
  std::sort(copy.begin(), copy.end());
  return copy;
}

double resampled_median(std::span<const double> x, std::mt19937_64& random,
                        std::vector<double>& draw) {
  std::uniform_int_distribution<size_t> pick(0, x.size() - 1);
  draw.resize(x.size());
  for (double& value : draw) value = x[pick(random)];
  return median_in_place(draw);
}

/// P(U <= u) for sample sizes n and m without ties. ways[j][v]: subsets of j of the ranks seen so
/// far with rank sum v + j(j+1)/2, that is, with U = v.
double exact_at_most(size_t n, size_t m, double u) {
  std::vector<std::vector<double>> ways(n + 1, std::vector<double>(n * m + 1, 0));
  ways[0][0] = 1;
  for (size_t rank = 1; rank <= n + m; ++rank) {
    for (size_t j = std::min(rank, n); j >= 1; --j) {
      // The rank's place above the lowest it could have as the j-th chosen.
      const size_t gain = rank - j;
      for (size_t v = n * m + 1; v-- > gain;) ways[j][v] += ways[j - 1][v - gain];
    }
  }
  double below = 0;
  for (size_t v = 0; v <= n * m && static_cast<double>(v) <= u; ++v) below += ways[n][v];
  return below / std::accumulate(ways[n].begin(), ways[n].end(), 0.0);
}

}  // namespace

double mean(std::span<const double> x) {
  return x.empty() ? kNaN
                   : std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

double stddev(std::span<const double> x) {
  if (x.empty()) return kNaN;
  if (x.size() == 1) return 0;
  const double center = mean(x);
  double squares = 0;
  for (double value : x) squares += (value - center) * (value - center);
  return std::sqrt(squares / static_cast<double>(x.size() - 1));
}

double quantile(std::span<const double> x, double q) {
  return x.empty() ? kNaN : quantile_sorted(sorted(x), q);
}

double median_in_place(std::vector<double>& x) {
  const auto middle = x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2);
  std::nth_element(x.begin(), middle, x.end());
  if (x.size() % 2 == 1) return *middle;
  return 0.5 * (*middle + *std::max_element(x.begin(), middle));
}

double median(std::span<const double> x) {
  if (x.empty()) return kNaN;
  std::vector<double> copy(x.begin(), x.end());
  return median_in_place(copy);
}

double geometric_mean(std::span<const double> x) {
  double logs = 0;
  for (double value : x) logs += std::log(value);
  return x.empty() ? kNaN : std::exp(logs / static_cast<double>(x.size()));
}

Ratio bootstrap_ratio(std::span<const double> a, std::span<const double> b, uint64_t seed) {
  if (a.empty() || b.empty()) return {kNaN, kNaN, kNaN};
  std::mt19937_64 random(seed);
  std::vector<double> ratios(kResamples), draw;
  for (double& ratio : ratios) {
    const double top = resampled_median(a, random, draw);
    ratio = top / resampled_median(b, random, draw);
  }
  std::sort(ratios.begin(), ratios.end());
  return {median(a) / median(b), quantile_sorted(ratios, 0.025), quantile_sorted(ratios, 0.975)};
}

Interval bootstrap_median(std::span<const double> x, uint64_t seed) {
  if (x.empty()) return {kNaN, kNaN};
  std::mt19937_64 random(seed);
  std::vector<double> medians(kResamples), draw;
  for (double& value : medians) value = resampled_median(x, random, draw);
  std::sort(medians.begin(), medians.end());
  return {quantile_sorted(medians, 0.025), quantile_sorted(medians, 0.975)};
}

Summary summarise(std::span<const double> x) {
  Summary s;
  s.count = x.size();
  s.median = median(x), s.mean = mean(x), s.stddev = stddev(x), s.cv = s.stddev / s.mean;
  s.min = quantile(x, 0), s.max = quantile(x, 1);
  s.p50 = quantile(x, 0.5), s.p90 = quantile(x, 0.9), s.p99 = quantile(x, 0.99);
  s.ci = bootstrap_median(x);
  s.outliers = tukey_outliers(x).total();
  return s;
}

RankTest mann_whitney(std::span<const double> a, std::span<const double> b) {
  if (a.empty() || b.empty()) return {kNaN, kNaN};
  struct Value {
    double value;
    bool of_a;
  };
  std::vector<Value> all;
  for (double value : a) all.push_back({value, true});
  for (double value : b) all.push_back({value, false});
  std::sort(all.begin(), all.end(),
            [](const Value& x, const Value& y) { return x.value < y.value; });

  double rank_sum = 0, tie_term = 0;  // sum over ties of t^3 - t
  for (size_t begin = 0; begin < all.size();) {
    size_t end = begin;
    while (end < all.size() && all[end].value == all[begin].value) ++end;
    const double rank = 0.5 * static_cast<double>(begin + 1 + end);
    const double count = static_cast<double>(end - begin);
    for (size_t i = begin; i < end; ++i) rank_sum += all[i].of_a ? rank : 0;
    tie_term += count * count * count - count;
    begin = end;
  }
  const double n = static_cast<double>(a.size()), m = static_cast<double>(b.size()), total = n + m;
  RankTest test;
  test.u = rank_sum - n * (n + 1) / 2;
  if (tie_term == 0 && a.size() <= kExactRanks && b.size() <= kExactRanks) {
    test.p = std::min(1.0, 2 * exact_at_most(a.size(), b.size(), std::min(test.u, n * m - test.u)));
    return test;
  }
  const double variance = n * m / 12 * (total + 1 - tie_term / (total * (total - 1)));
  if (variance <= 0) return test;  // every value is the same
  // Continuity correction.
  const double distance = std::max(0.0, std::abs(test.u - n * m / 2) - 0.5);
  test.p = std::erfc(distance / std::sqrt(2 * variance));
  return test;
}

Outliers tukey_outliers(std::span<const double> x) {
  Outliers out;
  if (x.empty()) return out;
  const std::vector<double> ordered = sorted(x);
  const double q1 = quantile_sorted(ordered, 0.25), q3 = quantile_sorted(ordered, 0.75);
  const double range = q3 - q1;
  for (double value : ordered) {
    if (value < q1 - 3 * range) {
      ++out.low_severe;
    } else if (value < q1 - 1.5 * range) {
      ++out.low_mild;
    } else if (value > q3 + 3 * range) {
      ++out.high_severe;
    } else if (value > q3 + 1.5 * range) {
      ++out.high_mild;
    }
  }
  return out;
}

}  // namespace graft::lab
