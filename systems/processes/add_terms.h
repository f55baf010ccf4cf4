// The sum of several arrays in one pass over them.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <vector>

namespace graft::systems {

/// Writes the sum of `terms`, two or more arrays of `numel` elements, to `to`, in their order; of
/// 16-bit floats in fp32, rounded once. Also to `also`, where that isn't null. Both may be one of
/// the terms, but overlap none otherwise. Throws c10::Error for a dtype that cannot be added.
void add_terms(c10::ScalarType dtype, const std::vector<const char*>& terms, int64_t numel,
               char* to, char* also);

}  // namespace graft::systems
