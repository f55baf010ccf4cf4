// What a function's results depend on beside its arguments: generator, autocast, and what this
// thread's operators go through (backward's differs, and graft::compile would record again).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace graft::systems::checkpointing {

/// The state of ATen's default CPU generator.
at::Tensor generator_state();
void set_generator_state(const at::Tensor& state);

/// As they are on this thread now.
class Surroundings {
 public:
  Surroundings();
  /// The generator did not move: it need not be kept.
  void forget_generator_if_unused();

 private:
  friend class SurroundingsGuard;
  at::Tensor generator_;                 // undefined: not needed
  c10::impl::LocalDispatchKeySet keys_;  // with autocast's
  bool cached_ = false;
  c10::ScalarType autocast_dtype_;
};

/// While it lives, autocast makes its casts anew and not by those in its cache: these belong to
/// another graph, which gradients must not go through. Nor do casts made here get out.
class OwnCasts {
 public:
  OwnCasts();
  ~OwnCasts();
  OwnCasts(const OwnCasts&) = delete;
  OwnCasts& operator=(const OwnCasts&) = delete;
};

/// Sets them, and sets back what was there when it ends.
class SurroundingsGuard {
 public:
  explicit SurroundingsGuard(const Surroundings& then);
  ~SurroundingsGuard();
  SurroundingsGuard(const SurroundingsGuard&) = delete;
  SurroundingsGuard& operator=(const SurroundingsGuard&) = delete;

 private:
  const Surroundings before_;
  const bool has_generator_;
  const OwnCasts casts_;
  const c10::impl::ForceDispatchKeyGuard keys_;
};

}  // namespace graft::systems::checkpointing
