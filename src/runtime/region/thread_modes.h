// The modes of a thread by which operators choose others, for code that runs again later.
#pragma once

#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/InferenceMode.h>

namespace graft::runtime {

/// Autocast's state and the default dtype, as they are where one is made: what decides dtypes. (A
/// function that runs again for its gradients was called with grad mode on and outside of inference
/// mode. Switches that decide rounding alone, as for products or subnormal numbers, stay as they
/// are when it does.)
class ThreadModes {
 public:
  ThreadModes() = default;

  class Scope;

 private:
  void set() const {
    at::autocast::set_autocast_enabled(at::kCPU, autocast_);
    at::autocast::set_autocast_dtype(at::kCPU, autocast_dtype_);
    // What it remembers is forgotten where the outermost autocast ends: maybe long ago, or never.
    // (So the gradients of a leaf that is cast twice are added up in its own dtype.)
    at::autocast::set_autocast_cache_enabled(false);
    // One of the process: not written where nothing changes.
    if (c10::get_default_dtype() != default_dtype_) c10::set_default_dtype(default_dtype_);
  }

  bool autocast_ = at::autocast::is_autocast_enabled(at::kCPU);
  at::ScalarType autocast_dtype_ = at::autocast::get_autocast_dtype(at::kCPU);
  caffe2::TypeMeta default_dtype_ = c10::get_default_dtype();
};

/// Sets them for a while.
class ThreadModes::Scope {
 public:
  explicit Scope(const ThreadModes& modes) { modes.set(); }
  ~Scope() {
    before_.set();
    at::autocast::set_autocast_cache_enabled(caches_);
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  const ThreadModes before_;
  const bool caches_ = at::autocast::is_autocast_cache_enabled();
  const c10::InferenceMode normal_{false};
};

}  // namespace graft::runtime
