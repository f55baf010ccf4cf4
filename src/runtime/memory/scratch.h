// Working memory of a kernel on the thread that runs it.
#pragma once

#include <cstdint>

namespace graft::runtime {

/// Memory of this thread, 64-byte aligned and `bytes` long, valid until the thread's next call;
/// null for 0 bytes.
char* thread_scratch(int64_t bytes);

}  // namespace graft::runtime
