// Autocast on the CPU, which libtorch has no guard for.
#pragma once

#include <ATen/autocast_mode.h>

namespace graft::workloads {

/// While it lives, the thread computes what is safe in `dtype`, as torch.autocast does in Python.
class Autocast {
 public:
  explicit Autocast(at::ScalarType dtype) {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, dtype);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_dtype(at::kCPU, dtype_);
    at::autocast::set_autocast_enabled(at::kCPU, enabled_);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  bool enabled_ = at::autocast::is_autocast_enabled(at::kCPU);
  at::ScalarType dtype_ = at::autocast::get_autocast_dtype(at::kCPU);
};

}  // namespace graft::workloads
