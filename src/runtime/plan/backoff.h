// When kernels stay on the calling thread because the other threads come late.
//
// On a busy machine a thread that is asked for may wait milliseconds for a processor, where a short
// kernel gains microseconds by it. Which kernels that befalls is not known ahead. So what a wait
// cost is owed, and paid back by short kernels that run alone, each of what it loses by that:
// however the machine behaves, no more than twice the loss of the better way (the ski-rental
// problem). After that the threads are asked again.
#pragma once

#include <algorithm>

namespace graft::runtime {

/// Of one calling thread; all times are in nanoseconds.
class Backoff {
 public:
  /// A start within this time is none that was late: threads that sleep take 100 us to wake.
  static constexpr double kLate = 300'000;

  /// Is a kernel that gains so much by threads to run alone?
  bool runs_alone(double gain) const { return owed_ > 0 && gain < wait_; }
  /// It ran alone, and lost so much by that.
  void ran_alone(double lost) { owed_ -= std::max(lost, 1.0); }
  /// A kernel that gains so much by threads waited so long for one of them to start.
  void waited(double gain, double wait) {
    if (wait < kLate || gain >= wait) return;
    wait_ = wait;
    owed_ = std::max(owed_, 0.0) + wait;
  }

 private:
  double owed_ = 0;
  double wait_ = 0;  ///< the last one's
};

}  // namespace graft::runtime
