#include "lab/verdict.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace graft::lab {
namespace {

constexpr int kJudgeResamples = 2000;
constexpr size_t kFewestPairs = 5;  // samples per side, below which nothing is said

/// A block length: long enough to hold what slows several samples, with enough blocks to resample.
size_t block_length(size_t count) {
  return std::max<size_t>(1, static_cast<size_t>(std::sqrt(static_cast<double>(count)) / 2));
}

/// Draws whole blocks of neighbours, as starts of blocks that wrap around.
class Blocks {
 public:
  Blocks(size_t count, uint64_t seed)
      : count_(count), length_(block_length(count)), random_(seed) {}

  std::vector<size_t> draw() {
    std::uniform_int_distribution<size_t> pick(0, count_ - 1);
    std::vector<size_t> places;
    while (places.size() < count_) {
      const size_t start = pick(random_);
      for (size_t i = 0; i < length_ && places.size() < count_; ++i)
        places.push_back((start + i) % count_);
    }
    return places;
  }

 private:
  size_t count_, length_;
  std::mt19937_64 random_;
};

std::vector<double> at(std::span<const double> x, const std::vector<size_t>& places) {
  std::vector<double> out;
  out.reserve(places.size());
  for (size_t place : places) out.push_back(x[place]);
  return out;
}

/// Ratio of medians over resamples; paired ones draw the same rounds for both sides.
Ratio interval(std::span<const double> a, std::span<const double> b, bool paired, uint64_t seed) {
  std::vector<double> left(a.begin(), a.end()), right(b.begin(), b.end());
  Ratio out{median_in_place(left) / median_in_place(right), 0, 0};
  std::vector<double> ratios;
  Blocks of_a(a.size(), seed), of_b(b.size(), seed + 1);
  for (int i = 0; i < kJudgeResamples; ++i) {
    const std::vector<size_t> places = of_a.draw();
    std::vector<double> x = at(a, places), y = at(b, paired ? places : of_b.draw());
    ratios.push_back(median_in_place(x) / median_in_place(y));
  }
  out.lo = quantile(ratios, 0.025), out.hi = quantile(ratios, 0.975);
  return out;
}

}  // namespace

const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::Faster:
      return "faster";
    case Verdict::Slower:
      return "slower";
    case Verdict::Same:
      return "same";
    case Verdict::Ambiguous:
      return "ambiguous";
  }
  return "";
}

Judgement judge(std::span<const double> reference, std::span<const double> candidate,
                const JudgeOptions& options) {
  Judgement out;
  if (reference.empty() || candidate.empty()) {
    constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
    out.ratio = {kNaN, kNaN, kNaN};
    return out;
  }
  const bool paired = options.paired && reference.size() == candidate.size();
  out.ratio = interval(reference, candidate, paired, options.seed);
  out.p = mann_whitney(reference, candidate).p;
  if (std::min(reference.size(), candidate.size()) < kFewestPairs) return out;
  const double above = 1 + options.least, below = 1 / above;
  if (out.ratio.lo > above && out.p < options.alpha) {
    out.verdict = Verdict::Faster;
  } else if (out.ratio.hi < below && out.p < options.alpha) {
    out.verdict = Verdict::Slower;
  } else if (out.ratio.lo >= below && out.ratio.hi <= above) {
    out.verdict = Verdict::Same;
  }
  return out;
}

Interval block_bootstrap_median(std::span<const double> x, uint64_t seed) {
  if (x.empty()) return {std::nan(""), std::nan("")};
  Blocks blocks(x.size(), seed);
  std::vector<double> medians;
  for (int i = 0; i < kJudgeResamples; ++i) {
    std::vector<double> drawn = at(x, blocks.draw());
    medians.push_back(median_in_place(drawn));
  }
  return {quantile(medians, 0.025), quantile(medians, 0.975)};
}

const char* gain_class(double ratio) {
  return ratio >= 1.5   ? "excellent"
         : ratio >= 1.2 ? "good"
         : ratio >= 1.0 ? "measured"
                        : "investigate";
}

}  // namespace graft::lab
