// How many threads ATen's routines take on the calling thread.
#pragma once

#include <ATen/Parallel.h>
#include <omp.h>

namespace graft::runtime {

/// OpenMP's count is a thread's own: the compiling one may have another than the caller has.
class WithThreads {
 public:
  /// ATen sets a thread's count when it is first asked for it: before this does.
  explicit WithThreads(int count) : before_(at::get_num_threads()) { omp_set_num_threads(count); }
  ~WithThreads() { omp_set_num_threads(before_); }
  WithThreads(const WithThreads&) = delete;
  WithThreads& operator=(const WithThreads&) = delete;

 private:
  int before_;
};

}  // namespace graft::runtime
