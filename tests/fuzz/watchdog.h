// Ends a worker whose program takes too long, and keeps what each of its threads was doing then.
#pragma once

#include <cstdint>
#include <string>

namespace graft::fuzz {

/// The exit code of a worker that its watchdog ended.
constexpr int kHungStatus = 86;

/// One for each process, for the rest of its life. When `limit` seconds pass between begin() and
/// end(), it writes the program and the stack of every thread to graft_fuzz-hung-SEED.txt in the
/// current folder, says so on stdout as a failed program ("! hung …"), and ends the process.
/// From then on it neither allocates nor locks: whoever hangs may hold any lock.
class Watchdog {
 public:
  explicit Watchdog(int limit);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// `program`: its text, as far as it is known.
  void begin(uint64_t seed, std::string program);
  void end();
};

/// Stands still for good, in this thread and in another one: what the watchdog is tested with.
[[noreturn]] void wait_for_ever();

}  // namespace graft::fuzz
