// The resident memory of this process, as Linux counts it.
#pragma once

#include <cstdint>

namespace graft::lab {

/// In bytes; -1 where /proc/self/status cannot be read.
struct Resident {
  int64_t current = -1;
  int64_t peak = -1;  ///< since the process began or the peak was last reset
};
Resident read_resident();
/// The current value; -1 where it cannot be read.
int64_t resident_bytes();
/// Resets the peak to the current value. False where the kernel does not allow it.
bool reset_resident_peak();

}  // namespace graft::lab
