// The progress of a long run: on a terminal one line that is rewritten, with the time left; in a
// log one line per step.
#pragma once

#include <chrono>
#include <cstddef>
#include <iosfwd>
#include <string>

namespace graft::lab {

/// Not thread-safe. Writes to another stream than that of the results, usually stderr.
class Progress {
 public:
  /// The time left is told as if all steps were equally long.
  Progress(std::ostream& out, bool terminal, size_t steps);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Begins the next step. One that takes as long as several others counts as so many `parts`.
  void begin(const std::string& label, size_t parts = 1);
  /// Tells how much of the current step is done, 0 to 1, and what is being done. Cheap: it redraws
  /// at most ten times per second.
  void at(double done, const std::string& what);
  /// Erases the line, so that other output can follow. The next call draws it again.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  void draw(double done, const std::string& what);

  std::ostream& out_;
  const bool terminal_;
  const size_t steps_;
  size_t step_ = 0;   // from 1 once begun
  size_t parts_ = 1;  // that the current step counts as
  std::string label_;
  bool drawn_ = false;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point last_draw_{};
};

}  // namespace graft::lab
