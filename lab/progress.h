// Where a long run stands: one rewritten line with the time left on a terminal, a line a step in a
// log.
#pragma once

#include <chrono>
#include <cstddef>
#include <iosfwd>
#include <string>

namespace graft::lab {

/// Single-threaded. Writes to a stream other than the results', stderr as a rule.
class Progress {
 public:
  /// `steps` are taken as equally long until some have passed.
  Progress(std::ostream& out, bool terminal, size_t steps);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// The next step begins.
  void begin(const std::string& label);
  /// Within a step: the part of it that is done, 0 to 1, and what is being done. Cheap; redraws ten
  /// times a second.
  void at(double done, const std::string& what);
  /// Takes the line away, so that other output can follow. The next call draws it again.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  void draw(double done, const std::string& what);

  std::ostream& out_;
  const bool terminal_;
  const size_t steps_;
  size_t step_ = 0;  // from 1 once begun
  std::string label_;
  bool drawn_ = false;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point last_draw_{};
};

/// "8 s", "2 min 5 s", "1 h 3 min".
std::string duration_text(double seconds);

}  // namespace graft::lab
