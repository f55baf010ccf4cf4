// ATen's count of threads, for a while.
#pragma once

#include <ATen/Parallel.h>

namespace graft::lab {

/// ATen runs loops on `count` threads while it lives.
class ThreadCount {
 public:
  explicit ThreadCount(int count) { at::set_num_threads(count); }
  ~ThreadCount() { at::set_num_threads(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_ = at::get_num_threads();
};

}  // namespace graft::lab
