// The memory sentinel: a check that the tracker measures an allocation of known size correctly,
// made before its figures are trusted.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace graft::lab {

struct Sentinel {
  int64_t requested = 0;  ///< bytes
  int64_t measured = 0;   ///< growth of live memory that the tracker saw
  double error = 0;       ///< |measured - requested| / requested
  bool freed = false;     ///< the tracker saw all of it freed
  bool passed = false;    ///< freed, and the error is below 0.1 %
  /// Growth of the process after every byte was written, and what remained of it after the free; -1
  /// where Linux does not say. Not part of the verdict: a pool may hand out memory that is already
  /// resident, and keep what is freed.
  int64_t resident = -1, resident_left = -1;
  std::string text() const;  ///< one line
};

/// Judges live memory before the allocation, during it, and after the free.
Sentinel judge_sentinel(int64_t requested, int64_t before, int64_t during, int64_t after);

/// Allocates a tensor of `bytes` under a MemoryTracker, writes it, frees it. Throws c10::Error if
/// there is too little memory, std::invalid_argument for fewer than one byte.
Sentinel memory_sentinel(int64_t bytes = int64_t{64} << 20);

nlohmann::json to_json(const Sentinel& sentinel);

}  // namespace graft::lab
