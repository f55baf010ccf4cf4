// Where the time of a call goes: each operator that it runs, on a timeline, nested as they call
// each other and inside the ranges that the program names. The source is libtorch's own profiler
// (Kineto), as used by Python's torch.profiler.
#pragma once

#include <ATen/record_function.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace graft::lab {

/// Names what runs while it lives: `ProfileRange range("forward");`. The same as libtorch's
/// RECORD_USER_SCOPE and Python's record_function, so other profilers see it too. Ranges nest.
/// Costs a few nanoseconds while nobody profiles. One whose name starts with kCompiledPrefix is a
/// compiled region: its own time is that of compiled kernels.
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
  double start_us = 0;  ///< from the first event
  double duration_us = 0;
  int64_t thread = 1;

  // Filled by nest().
  /// Names of the ranges around it, outermost first: "forward/attention"; a range counts itself; ""
  /// is the whole call.
  std::string range = {};
  double self_us = 0;   ///< duration without the events inside
  int64_t parent = -1;  ///< index of the event around it; -1: none
};

struct Profile {
  std::vector<ProfileEvent> events;  ///< by thread, then start; an event comes before those inside
  int calls = 0;
  std::vector<double> call_ms;   ///< each profiled call
  std::vector<double> plain_ms;  ///< as many calls just before, without the profiler
};

struct ProfileOptions {
  int calls = 10;
  int warmup = 3;  ///< calls before the first that counts
};

/// Calls `run` warmup + 2 x calls times on this thread. Sees the operators of this thread, and of
/// threads that autograd starts for it; at::parallel_for's workers count in the operator that waits
/// for them. Each event adds about a microsecond to a call: compare call_ms with plain_ms. What
/// `run` throws passes through. Throws std::runtime_error while another profiler is active on this
/// thread. Sets KINETO_LOG_LEVEL in the environment where it is not set, since Kineto would
/// complain on stderr of every machine without a GPU; so the first call must not race with getenv.
Profile profile(const std::function<void()>& run, const ProfileOptions& options = {});

/// The range around each call of `run`, which all paths leave out.
inline constexpr const char* kCallRange = "call";

/// Sorts events and fills the fields that follow from starts and durations.
void nest(std::vector<ProfileEvent>& events);

/// Whether `path` is `range` or inside it: "forward/attention" is inside "forward" and "".
bool inside_range(const std::string& path, const std::string& range);

}  // namespace graft::lab
