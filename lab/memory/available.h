// How much memory there is to take.
#pragma once

#include <cstdint>

namespace graft::lab {

/// Bytes that this process may still take: the system's free memory, within the limits of its
/// control group and its address space (ulimit -v). -1 where Linux does not say.
int64_t available_memory();

}  // namespace graft::lab
