// Ends a worker whose program takes too long, and keeps what each of its threads was doing then.
#pragma once

#include <cstdint>
#include <string>

namespace graft::fuzz {

/// The exit code of a worker that its watchdog ended.
constexpr int kHungStatus = 86;

/// One for each process, for the rest of its life. When `limit` seconds pass between begin() and
/// end(), not counting those in which the process was stopped or got no processor, it writes the
/// program and the stack of every thread to graft_fuzz-hung-SEED.txt in the current folder, says so
/// on stdout as a failed program ("! hung …"), and ends the process. It neither allocates nor
/// locks: whoever hangs may hold any lock. Every 10 seconds it prints ".", so that the driver knows
/// that it is alive.
class Watchdog {
 public:
  explicit Watchdog(int limit);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// `text`: the program, as far as it is known.
  void begin(uint64_t seed, std::string text);
  void end();
};

/// Stands still for good, in this thread and in another one: what the watchdog is tested with.
[[noreturn]] void wait_for_ever();

}  // namespace graft::fuzz
