// When kernels stay on the calling thread because the other threads come late.
//
// Threads that have had nothing to do for some milliseconds sleep, and waking them takes longer
// than a short kernel gains by them (measured: 50 us for one, 300 us for 15 of a virtual machine).
// On a busy machine a thread that is asked for may wait milliseconds for a processor even if the
// last kernel had it just before. Which kernels that befalls is not known ahead. So what a wait
// cost is owed, and paid back by short kernels that run alone, each of what it loses by that:
// however the machine behaves, no more than twice the loss of the better way (the ski-rental
// problem). After that the threads are asked again.
#pragma once

#include <algorithm>

namespace graft::runtime {

/// Of one calling thread; all times are in nanoseconds.
class Backoff {
 public:
  /// What threads wait within this time is not owed, of kernels that follow another (each machine
  /// halts a thread now and then), and of those after a pause (threads awake take 1 to 5 us).
  static constexpr double kLate = 300'000, kWoken = 20'000;
  /// Threads that had nothing to do for so long may sleep. (libgomp's turn round for 2 ms here.)
  static constexpr double kAwake = 1'000'000;

  /// Is a kernel that gains so much by threads to run alone? It begins at `now`.
  bool runs_alone(double gain, double now) const {
    return busy_.runs_alone(gain) || (asleep(now) && asleep_.runs_alone(gain));
  }
  /// It ran alone, and lost so much by that: which is paid to what let it.
  void ran_alone(double gain, double lost) {
    (busy_.runs_alone(gain) ? busy_ : asleep_).owed -= std::max(lost, 1.0);
  }
  /// A kernel that gains so much by threads, begun at `begun`, waited so long for them in all and
  /// ended at `now`.
  void waited(double gain, double wait, double begun, double now) {
    if (gain < wait) {
      if (asleep(begun) && wait > kWoken) asleep_.waited(wait);
      if (!asleep(begun) && wait > kLate) busy_.waited(wait);
    }
    together_ = now;
  }

 private:
  struct Account {
    double owed = 0;
    double wait = 0;  ///< the last one's

    bool runs_alone(double gain) const { return owed > 0 && gain < wait; }
    void waited(double waited) {
      wait = waited;
      owed = std::max(owed, 0.0) + waited;
    }
  };

  bool asleep(double now) const { return now - together_ > kAwake; }

  Account busy_;         ///< waits of kernels that followed another
  Account asleep_;       ///< waits of kernels after a pause
  double together_ = 0;  ///< when threads last ended a kernel
};

}  // namespace graft::runtime
