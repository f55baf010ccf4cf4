#include "quantizer/model/grid.h"

#include <ATen/ATen.h>

namespace graft::quantizer {

CodeRange CodeRange::of(int bits, bool symmetric) {
  const int64_t codes = int64_t{1} << bits;
  return symmetric ? CodeRange{-codes / 2, codes / 2 - 1} : CodeRange{0, codes - 1};
}

Grid find_grid(const at::Tensor& weights, int bits, bool symmetric) {
  const auto steps = static_cast<double>((int64_t{1} << bits) - 1);
  const at::Tensor low = weights.amin(1).clamp_max_(0), high = weights.amax(1).clamp_min_(0);
  const at::Tensor reach = at::maximum(high, -low);
  Grid grid;
  grid.scale = (symmetric ? reach + reach : high - low) / steps;
  grid.scale.masked_fill_(grid.scale == 0, 1);
  grid.zero = symmetric ? at::zeros_like(low) : at::round(-low / grid.scale).clamp_max_(steps);
  return grid;
}

}  // namespace graft::quantizer
