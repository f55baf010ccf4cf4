// Decides which side is faster, eager or compiled. Calls alternate between the two, each giving its
// caller a real result, until the answer is clear.
//
// It is clear after one pair where a call of more than 100 ms became 1.5x faster, and otherwise
// after at least three pairs when the medians are more than 2 % apart, the fastest calls agree with
// them, and a sign test over the pairs does (chance at most one in eight). After 15 pairs, or when
// the race has used five seconds, the faster median wins, or the fastest call where calls were
// disturbed (a median is half as long again as the fastest one); a tie goes to the compiled side.
//
// The machine may have been busy with something else meanwhile, as it often is while a program
// starts. So a compiled side that lost races again later, when that costs little, and so does one
// that won, here or in another process.
#pragma once

#include <string>
#include <vector>

namespace graft::runtime {

class Race {
 public:
  enum class Side : uint8_t { Eager, Compiled };
  /// Whose turn it is.
  Side next() const { return compiled_.size() < eager_.size() ? Side::Compiled : Side::Eager; }
  void add(Side side, double microseconds);

  bool decided() const { return decided_; }
  bool compiled_wins() const { return compiled_wins_; }
  /// How many eager calls to make before racing again, so that the compiled calls of that race cost
  /// 2 % of the time. Doubles with each race lost; `lost`: how many so far.
  int64_t calls_to_rematch(int lost) const;
  double eager_median() const;
  double compiled_median() const;
  /// "9.1 us against eager's 52.3 us (5.7x), 3 calls of each".
  std::string text() const;

 private:
  void decide();

  std::vector<double> eager_, compiled_;
  int warm_[2] = {0, 0};  ///< calls left out at each side's start
  double spent_[2] = {0, 0};
  bool decided_ = false, compiled_wins_ = false;
};

/// How many compiled calls to make before what won a race with these times races again, so that the
/// eager calls of that race cost about 2 % of the time; more after each race won, and after a few
/// none: 0.
int64_t calls_to_recheck(double eager_us, double compiled_us, int won);

double median(std::vector<double> values);

}  // namespace graft::runtime
