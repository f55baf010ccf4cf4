#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>

#include "graft/systems/numbers.h"

namespace graft::systems {

DelayedScaling::DelayedScaling(const NumberFormat& format, int history, int margin)
    : format_(format), margin_(margin) {
  TORCH_CHECK_VALUE(format.block == 0, "DelayedScaling: came the format ", format.name,
                    " of blocks, expected one with a single scale, as fp8_e4m3.");
  TORCH_CHECK_VALUE(history > 0, "DelayedScaling: came a history of ", history,
                    ", expected at least 1.");
  history_.resize(static_cast<size_t>(history));
}

float DelayedScaling::next_scale() const {
  const float amax = *std::max_element(history_.begin(), history_.end());
  const float scale = std::ldexp(amax / format_.coding().max, margin_);
  return std::isnormal(scale) ? scale : 0;
}

Quantized DelayedScaling::quantize(const at::Tensor& values, QuantizeOptions options) {
  options.tensor_scale = next_scale();
  Quantized out = systems::quantize(values, format_, options);
  if (std::isfinite(out.amax)) {
    history_[at_] = out.amax;
    at_ = (at_ + 1) % history_.size();
  }
  return out;
}

}  // namespace graft::systems
