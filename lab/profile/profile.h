// Where the time of a call goes: every operator that it runs, on a timeline, nested by who calls
// whom and inside the ranges that the program names. The source is libtorch's own profiler
// (Kineto), which Python's torch.profiler uses too.
#pragma once

#include <ATen/record_function.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace graft::lab {

/// Names what runs while it lives: `ProfileRange range("forward");`. It is the same as libtorch's
/// RECORD_USER_SCOPE and Python's record_function, so other profilers see it too. Ranges nest.
/// While no profiler is active it costs a few nanoseconds. A range whose name starts with
/// kCompiledPrefix is a compiled region: its self time is that of compiled kernels.
class ProfileRange {
 public:
  explicit ProfileRange(const std::string& name) : record_(at::RecordScope::USER_SCOPE) {
    if (record_.isActive()) record_.before(name);
  }
  ProfileRange(const ProfileRange&) = delete;
  ProfileRange& operator=(const ProfileRange&) = delete;

 private:
  at::RecordFunction record_;
};

inline constexpr const char* kCompiledPrefix = "graft::";

struct ProfileEvent {
  std::string name;  ///< "aten::addmm", or the range's name
  bool is_range = false;
  double start_us = 0;  ///< since the start of the first event
  double duration_us = 0;
  int64_t thread = 1;

  // Filled by nest().
  /// Names of the ranges around it, outermost first: "forward/attention"; for a range, its own name
  /// comes last. "" is the whole call.
  std::string range = {};
  double self_us = 0;   ///< duration without the events inside
  int64_t parent = -1;  ///< index of the event around it; -1: none
};

struct Profile {
  std::vector<ProfileEvent> events;  ///< by thread, then start; an event comes before those inside
  int calls = 0;
  std::vector<double> call_ms;   ///< time of each profiled call
  std::vector<double> plain_ms;  ///< times of as many calls just before, without the profiler
};

struct ProfileOptions {
  int calls = 10;
  int warmup = 3;  ///< calls before the first that counts
};

/// Calls `run` warmup + 2 x calls times on this thread. Sees the operators of this thread and of
/// threads that autograd starts for it; the time of at::parallel_for's workers is in the operator
/// that waits for them. Each event adds about a microsecond to a call: compare call_ms with
/// plain_ms. What `run` throws passes through. Throws std::runtime_error while another profiler is
/// active on this thread. Sets the environment variable KINETO_LOG_LEVEL if it is not set, since
/// Kineto complains on stderr about machines without a GPU; so the first call must not run at the
/// same time as getenv.
Profile profile(const std::function<void()>& run, const ProfileOptions& options = {});

/// The name of the range around each call of `run`; ProfileEvent::range leaves it out.
inline constexpr const char* kCallRange = "call";

/// Sorts events and computes the fields that follow from starts and durations.
void nest(std::vector<ProfileEvent>& events);

/// Is `path` equal to `range` or inside it? "forward/attention" is inside "forward" and "".
bool inside_range(const std::string& path, const std::string& range);

}  // namespace graft::lab
