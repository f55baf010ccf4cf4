#include "runtime/proof/race.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <sstream>

#include "runtime/process/text.h"

namespace graft::runtime {

namespace {

constexpr size_t kFewestPairs = 3, kMostPairs = 15;
constexpr double kClear = 0.02;
constexpr double kRaceAtMost = 5e6;  // µs
constexpr double kLongCall = 1e5;    // µs; one pair tells, if calls are so long and so far apart
constexpr double kFarApart = 1.5;
constexpr double kDisturbed = 1.5;     // times the fastest call: a median that tells little
constexpr double kWarmUpAtMost = 1e5;  // µs: a longer call is no worse for being the first
constexpr double kRematchIn = 50;      // times what the compiled side of a race took
constexpr double kFastestCall = 0.1;   // µs
constexpr double kFewestToRematch = 100, kMostToRematch = 1e15;

/// Chance that a fair coin shows at least `heads` heads in `tosses`.
double chance(size_t heads, size_t tosses) {
  double term = 1, sum = 0, all = 1;
  for (size_t i = 0; i < tosses; ++i) all *= 2;
  for (size_t k = 0; k <= tosses; ++k) {
    if (k >= heads) sum += term;
    term = term * static_cast<double>(tosses - k) / static_cast<double>(k + 1);
  }
  return sum / all;
}

double least(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  size_t half = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(half),
                   values.end());
  double upper = values[half];
  if (values.size() % 2 == 1) return upper;
  return (upper +
          *std::max_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(half))) /
         2;
}

void Race::add(Side side, double microseconds) {
  spent_[static_cast<int>(side)] += microseconds;
  int& warm = warm_[static_cast<int>(side)];
  // The other side has evicted caches and code since: one call each is not counted, unless it was
  // long anyway.
  if (warm == 0 && microseconds < kWarmUpAtMost) {
    ++warm;
    return;
  }
  (side == Side::Eager ? eager_ : compiled_).push_back(microseconds);
  decide();
}

void Race::decide() {
  size_t pairs = std::min(eager_.size(), compiled_.size());
  if (decided_ || pairs == 0 || eager_.size() != compiled_.size()) return;
  double eager = eager_median(), compiled = compiled_median();
  compiled_wins_ = compiled <= eager;
  const double fastest_eager = least(eager_), fastest_compiled = least(compiled_);
  if (pairs >= kMostPairs || spent_[0] + spent_[1] > kRaceAtMost) {
    const bool disturbed =
        eager > kDisturbed * fastest_eager || compiled > kDisturbed * fastest_compiled;
    if (disturbed) compiled_wins_ = fastest_compiled <= fastest_eager;
    decided_ = true;
    return;
  }
  // What else the machine does slows calls and quickens none: the fastest ones must agree.
  if (compiled_wins_ != (fastest_compiled <= fastest_eager)) return;
  // Against the compiled side, which is seldom so much slower, one pair is too little.
  if (compiled_wins_ && eager > kLongCall && eager > kFarApart * compiled) {
    decided_ = true;
    return;
  }
  if (pairs < kFewestPairs || std::abs(eager - compiled) <= kClear * std::max(eager, compiled))
    return;
  size_t agree = 0;
  for (size_t i = 0; i < pairs; ++i) agree += (compiled_[i] <= eager_[i]) == compiled_wins_;
  decided_ = chance(agree, pairs) <= 0.125;
}

int64_t Race::calls_to_rematch(int lost) const {
  double calls = kRematchIn * spent_[static_cast<int>(Side::Compiled)] /
                 std::max(eager_median(), kFastestCall) * std::exp2(lost - 1);
  return static_cast<int64_t>(std::clamp(calls, kFewestToRematch, kMostToRematch));
}

int64_t calls_to_recheck(double eager_us, double compiled_us, int won) {
  constexpr double kCalls = 4, kFewestCalls = 1000, kGrows = 16;
  constexpr int kTimes = 3;
  if (won > kTimes) return 0;
  const double calls = kRematchIn * kCalls * eager_us / std::max(compiled_us, kFastestCall) *
                       std::pow(kGrows, won - 1);
  return static_cast<int64_t>(std::clamp(calls, kFewestCalls, kMostToRematch));
}

double Race::eager_median() const {
  return median(eager_);
}
double Race::compiled_median() const {
  return median(compiled_);
}

std::string Race::text() const {
  double eager = eager_median(), compiled = compiled_median();
  char ratio[32];
  std::snprintf(ratio, sizeof ratio, "%.2fx", compiled > 0 ? eager / compiled : 0.0);
  return duration(compiled) + " against eager's " + duration(eager) + " (" + ratio + "), " +
         std::to_string(compiled_.size()) + " calls of each";
}

}  // namespace graft::runtime
