// Operators by which processes speak to each other.
#pragma once

#include <string_view>

namespace graft {

/// Begins a collective of this tensor, whose memory is the collective's until it is awaited.
inline constexpr std::string_view kStartsCollective = "graft::start_";
inline constexpr std::string_view kAwaitsCollective = "graft::wait_";

/// Each call is seen by other processes, in the order of the calls.
inline bool communicates(std::string_view name) {
  return name == kStartsCollective || name == kAwaitsCollective;
}

}  // namespace graft
