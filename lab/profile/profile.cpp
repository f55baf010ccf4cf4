#include "lab/profile/profile.h"

#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <set>
#include <stdexcept>

#include "lab/timer.h"

namespace graft::lab {
namespace {

namespace kineto = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

/// Above every severity that Kineto knows.
constexpr const char* kSilent = "5";

/// Kineto, recording while it lives.
class Recording {
 public:
  Recording() {
    if (torch::profiler::impl::profilerEnabled()) {
      throw std::runtime_error(
          "a libtorch profiler is already active on this thread, and two cannot be: end it before "
          "lab::profile, or profile without it");
    }
    setenv("KINETO_LOG_LEVEL", kSilent, 0);
    const torch::profiler::impl::ProfilerConfig config(
        torch::profiler::impl::ProfilerState::KINETO);
    const std::set<ActivityType> activities{ActivityType::CPU};
    kineto::prepareProfiler(config, activities);
    kineto::enableProfiler(config, activities,
                           {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION,
                            at::RecordScope::USER_SCOPE});
  }
  ~Recording() {
    if (!ended_) kineto::disableProfiler();
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  std::unique_ptr<kineto::ProfilerResult> end() {
    ended_ = true;
    return kineto::disableProfiler();
  }

 private:
  bool ended_ = false;
};

std::vector<ProfileEvent> events_of(const kineto::ProfilerResult& result) {
  uint64_t first = UINT64_MAX;
  for (const kineto::KinetoEvent& event : result.events()) first = std::min(first, event.startNs());
  std::vector<ProfileEvent> out;
  out.reserve(result.events().size());
  for (const kineto::KinetoEvent& event : result.events()) {
    // Without an end on the thread where it began it has no place in a nest.
    if (event.isAsync() || event.isHiddenEvent()) continue;
    ProfileEvent& made = out.emplace_back();
    made.name = event.name();
    made.is_range = event.scope() == static_cast<uint8_t>(at::RecordScope::USER_SCOPE);
    made.start_us = 1e-3 * static_cast<double>(event.startNs() - first);
    made.duration_us = 1e-3 * static_cast<double>(event.durationNs());
    made.thread = static_cast<int64_t>(event.startThreadId());
  }
  return out;
}

double end_of(const ProfileEvent& event) {
  return event.start_us + event.duration_us;
}

std::string path_of(const ProfileEvent& event, const std::vector<ProfileEvent>& events) {
  const bool has_parent = event.parent >= 0;
  const std::string around = has_parent ? events[static_cast<size_t>(event.parent)].range : "";
  if (!event.is_range || (!has_parent && event.name == kCallRange)) return around;
  return around.empty() ? event.name : around + '/' + event.name;
}

}  // namespace

void nest(std::vector<ProfileEvent>& events) {
  std::stable_sort(events.begin(), events.end(), [](const ProfileEvent& a, const ProfileEvent& b) {
    if (a.thread != b.thread) return a.thread < b.thread;
    if (a.start_us != b.start_us) return a.start_us < b.start_us;
    return a.duration_us > b.duration_us;
  });
  std::vector<size_t> open;
  for (size_t i = 0; i < events.size(); ++i) {
    ProfileEvent& event = events[i];
    while (!open.empty() && (events[open.back()].thread != event.thread ||
                             end_of(events[open.back()]) <= event.start_us)) {
      open.pop_back();
    }
    event.parent = open.empty() ? -1 : static_cast<int64_t>(open.back());
    event.range = path_of(event, events);
    event.self_us = event.duration_us;
    if (!open.empty()) events[open.back()].self_us -= event.duration_us;
    open.push_back(i);
  }
  // Clock steps between a child's end and its parent's.
  for (ProfileEvent& event : events) event.self_us = std::max(0.0, event.self_us);
}

bool inside_range(const std::string& path, const std::string& range) {
  return range.empty() || path == range || path.starts_with(range + '/');
}

Profile profile(const std::function<void()>& run, const ProfileOptions& options) {
  Profile out;
  out.calls = options.calls;
  for (int i = 0; i < options.warmup; ++i) run();
  for (int i = 0; i < options.calls; ++i) out.plain_ms.push_back(time_once_ms(run));
  Recording recording;
  for (int i = 0; i < options.calls; ++i) {
    const ProfileRange call(kCallRange);
    run();
  }
  out.events = events_of(*recording.end());
  nest(out.events);
  for (const ProfileEvent& event : out.events) {
    const bool is_call = event.is_range && event.parent < 0 && event.name == kCallRange;
    if (is_call) out.call_ms.push_back(1e-3 * event.duration_us);
  }
  return out;
}

}  // namespace graft::lab
