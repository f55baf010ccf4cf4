// Working memory of a kernel on the thread that runs it.
#pragma once

#include <cstdint>

namespace graft::runtime {

/// 64-byte aligned, `bytes` long, of this thread until its next call; null for 0 bytes.
char* thread_scratch(int64_t bytes);

}  // namespace graft::runtime
