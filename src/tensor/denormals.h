#pragma once

#include <limits>

namespace graft {

/// Does this thread's arithmetic take subnormal numbers for zero (at::Context::setFlushDenormal)?
/// ATen keeps the answer nowhere but in the processor's control word; asking by a product is the
/// same on every machine.
inline bool flushes_denormals() {
  volatile float smallest = std::numeric_limits<float>::min();  // volatile: not known beforehand
  return smallest * 0.5f == 0;
}

}  // namespace graft
