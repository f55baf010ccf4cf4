// Random inputs of workloads.
#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "graft/workload.h"

namespace graft::workloads {

/// Seeded draws that leave the global generator alone.
class Draw {
 public:
  explicit Draw(const Options& options)
      : generator_(at::detail::createCPUGenerator(options.seed)) {}
  at::Tensor normal(at::IntArrayRef sizes, at::ScalarType dtype = at::kFloat) {
    return at::randn(sizes, generator_, at::kFloat).to(dtype);
  }
  at::Tensor uniform(at::IntArrayRef sizes, double low = 0, double high = 1) {
    return at::rand(sizes, generator_, at::kFloat) * (high - low) + low;
  }
  /// Whole numbers from 0 to `end`, without it.
  at::Tensor integers(at::IntArrayRef sizes, int64_t end, at::ScalarType dtype = at::kLong) {
    return at::randint(end, sizes, generator_, dtype);
  }

 private:
  at::Generator generator_;
};

}  // namespace graft::workloads
