// The memory sentinel: before a memory figure is believed, an allocation of known size must be
// seen.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace graft::lab {

struct Sentinel {
  int64_t requested = 0;  ///< bytes
  int64_t measured = 0;   ///< bytes by which the tracker saw live memory grow
  double error = 0;       ///< |measured - requested| / requested
  bool freed = false;     ///< the tracker saw all of it go
  bool passed = false;    ///< freed, and the error is below 0.1 %
  /// Growth of the process once every byte was written, and what was left of it after the free;
  /// -1 where Linux does not say. Not part of the verdict: a pool may give memory that is resident
  /// already, and keep what is freed.
  int64_t resident = -1, resident_left = -1;
  std::string text() const;  ///< one line
};

/// Judges what was seen: `after` is live memory once the tensor was gone.
Sentinel judge_sentinel(int64_t requested, int64_t before, int64_t during, int64_t after);

/// Allocates a tensor of `bytes` under a MemoryTracker, writes it, frees it. Throws c10::Error
/// where there is not that much memory, std::invalid_argument for fewer bytes than one.
Sentinel memory_sentinel(int64_t bytes = int64_t{64} << 20);

nlohmann::json to_json(const Sentinel& sentinel);

}  // namespace graft::lab
