// What the lowerings of losses share.
#pragma once

#include "ops/schema.h"

namespace graft::ops {

/// at::Reduction.
enum class Reduction : int64_t { None = 0, Mean = 1, Sum = 2 };

inline Reduction reduction_of(const record::OperatorRecord& op) {
  return static_cast<Reduction>(integer(op, "reduction", 1));
}

inline bool is_known(Reduction reduction) {
  return reduction == Reduction::None || reduction == Reduction::Mean ||
         reduction == Reduction::Sum;
}

inline constexpr const char* kUnknownReduction =
    "a reduction of another number than at::Reduction has";
inline constexpr const char* kStepsRounded =
    "of other dtypes than fp32 or fp64, which round at each step";

}  // namespace graft::ops
