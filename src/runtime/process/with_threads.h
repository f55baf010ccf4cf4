// How many threads ATen's routines take on the calling thread.
#pragma once

#include <omp.h>

namespace graft::runtime {

/// OpenMP's count is a thread's own: the compiling one may have another than the caller has.
class WithThreads {
 public:
  explicit WithThreads(int count) : before_(omp_get_max_threads()) { omp_set_num_threads(count); }
  ~WithThreads() { omp_set_num_threads(before_); }
  WithThreads(const WithThreads&) = delete;
  WithThreads& operator=(const WithThreads&) = delete;

 private:
  int before_;
};

}  // namespace graft::runtime
