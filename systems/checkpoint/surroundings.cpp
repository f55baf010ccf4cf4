#include "systems/checkpoint/surroundings.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/autocast_mode.h>

#include <cstring>
#include <mutex>

namespace graft::systems::checkpointing {

at::Tensor generator_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::scoped_lock lock(generator.mutex());
  return generator.get_state();
}

void set_generator_state(const at::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::scoped_lock lock(generator.mutex());
  generator.set_state(state);
}

Surroundings::Surroundings()
    : generator_(generator_state()),
      keys_(c10::impl::tls_local_dispatch_key_set()),
      cached_(at::autocast::is_autocast_cache_enabled()),
      autocast_dtype_(at::autocast::get_autocast_dtype(at::kCPU)) {}

void Surroundings::forget_generator_if_unused() {
  const at::Tensor now = generator_state();
  if (std::memcmp(now.const_data_ptr(), generator_.const_data_ptr(), now.nbytes()) == 0)
    generator_.reset();
}

OwnCasts::OwnCasts() {
  at::autocast::clear_cache();
}
OwnCasts::~OwnCasts() {
  at::autocast::clear_cache();
}

SurroundingsGuard::SurroundingsGuard(const Surroundings& then)
    : has_generator_(then.generator_.defined()), keys_(then.keys_) {
  if (has_generator_) set_generator_state(then.generator_);
  at::autocast::set_autocast_dtype(at::kCPU, then.autocast_dtype_);
  at::autocast::set_autocast_cache_enabled(then.cached_);
}

SurroundingsGuard::~SurroundingsGuard() {
  if (has_generator_) set_generator_state(before_.generator_);
  at::autocast::set_autocast_dtype(at::kCPU, before_.autocast_dtype_);
  at::autocast::set_autocast_cache_enabled(before_.cached_);
}

}  // namespace graft::systems::checkpointing
