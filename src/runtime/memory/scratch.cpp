#include "runtime/memory/scratch.h"

#include "runtime/memory/pool.h"

namespace graft::runtime {

namespace {

struct Scratch {
  char* data = nullptr;
  int64_t bytes = 0;
  ~Scratch() { pool_free(data); }
};

}  // namespace

char* thread_scratch(int64_t bytes) {
  if (bytes == 0) return nullptr;
  thread_local Scratch scratch;
  if (bytes > scratch.bytes) {
    pool_free(scratch.data);
    scratch = {nullptr, 0};
    scratch.data = static_cast<char*>(pool_allocate(static_cast<size_t>(bytes)));
    scratch.bytes = static_cast<int64_t>(pool_block_bytes(static_cast<size_t>(bytes)));
  }
  return scratch.data;
}

}  // namespace graft::runtime
