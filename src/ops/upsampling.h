// What upsampling by nearest neighbours and that between neighbours share.
#pragma once

#include <vector>

#include "tensor/view.h"

namespace graft::ops {

/// Samples and channels stand before the dimensions that grow.
constexpr size_t kBefore = 2;

/// The schema's arguments with the factors of the one to three dimensions that grow; empty where
/// the operator was given something else.
inline std::vector<const char*> upsampling_factors(const View& in, const View& out) {
  if (in.sizes.size() != out.sizes.size()) return {};
  switch (in.sizes.size()) {
    case kBefore + 1:
      return {"scales"};
    case kBefore + 2:
      return {"scales_h", "scales_w"};
    case kBefore + 3:
      return {"scales_d", "scales_h", "scales_w"};
    default:
      return {};
  }
}

}  // namespace graft::ops
