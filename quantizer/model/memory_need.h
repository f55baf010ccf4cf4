// The most memory that quantising a model takes.
#pragma once

#include <cstdint>
#include <string>

#include "quantizer/model/architecture.h"
#include "quantizer/model/calibration.h"
#include "quantizer/model/layer.h"

namespace graft::quantizer {

/// Bytes, computed from shapes; a little more than what is used.
struct MemoryNeed {
  int64_t weights = 0;      ///< of the largest layer, as fp32 and quantised
  int64_t hessians = 0;     ///< of a layer's linear layers
  int64_t work = 0;         ///< of quantize_layer for the largest linear layer
  int64_t activations = 0;  ///< of all calibration tokens
  int64_t forward = 0;      ///< of running one batch through a layer

  /// The sum; `work` and `forward` are never needed at the same time, so the larger counts.
  int64_t total() const;
};
MemoryNeed memory_need(const Architecture& model, const CalibrationSize& calibration,
                       const Settings& settings);

/// Throws GptqError if `need` is more than `available`, naming the need and its parts, what there
/// is, and what to do.
void check_memory(const MemoryNeed& need, int64_t available);

}  // namespace graft::quantizer
