#include "support/samples.h"

#include <ATen/ops/empty.h>

namespace graft::test {

at::Tensor sample(at::IntArrayRef sizes, c10::ScalarType type) {
  static thread_local uint64_t state = 0;
  at::Tensor wide = at::empty(sizes, at::TensorOptions(at::kDouble));
  state = 0x9e3779b97f4a7c15 + static_cast<uint64_t>(wide.numel());
  for (int64_t i = 0; i < wide.numel(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    double unit = static_cast<double>(state >> 11) / static_cast<double>(1ull << 53);
    // A sum of two makes the middle likelier; every seventh is a quarter, so that ties occur.
    state = state * 6364136223846793005u + 1442695040888963407u;
    double other = static_cast<double>(state >> 11) / static_cast<double>(1ull << 53);
    double value = 3 * (unit + other - 1);
    if (i % 7 == 3) value = static_cast<double>(static_cast<int64_t>(4 * value)) / 4;
    if (!at::isFloatingType(type)) value = static_cast<double>(static_cast<int64_t>(5 * value));
    if (type == at::kByte) value = value < 0 ? 250 + value : value;
    if (type == at::kBool) value = value > 4;
    wide.mutable_data_ptr<double>()[i] = value;
  }
  return wide.to(type);
}

std::vector<at::Tensor> layouts(c10::ScalarType type) {
  return {
      sample({4, 5, 9}, type),
      sample({9, 5, 4}, type).permute({2, 1, 0}),
      sample({5, 4, 9}, type).transpose(0, 1),
      sample({4, 5, 18}, type).slice(2, 1, 18, 2),
      sample({6, 5, 9}, type).slice(0, 2),
      sample({5, 1}, type).expand({3, 5, 4}),
      sample({3, 70}, type),
      sample({70, 3}, type),
      sample({2, 1, 3}, type),
      sample({40}, type),
      sample({1}, type),
      sample({}, type),
  };
}

}  // namespace graft::test
