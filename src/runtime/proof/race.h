// Which side is faster? Calls take turns, each giving its caller a real result, until the answer is
// clear.
//
// Clear: at least three pairs, medians more than 2 % apart, and so many pairs that agree with the
// medians that chance alone would do it in at most one case of eight (sign test). After 15 pairs,
// or when the race has used five seconds, the faster median wins; a tie goes to the compiled side.
//
// The machine may have been busy with something else just then, as it often is while a program
// starts: a compiled side that lost races again once that costs little.
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
  /// Eager calls after a lost race in which the compiled calls of the next one cost 2 % of the
  /// time. Twice as many for each race lost before, `lost` in all.
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

double median(std::vector<double> values);

}  // namespace graft::runtime
