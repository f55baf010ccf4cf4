#include "runtime/key/numbers.h"

namespace graft::runtime {

std::vector<KeyNumber> numbers_of(std::span<const uint64_t> words) {
  // As Key::build writes them.
  const size_t tensors = words[0] & 0xffffffff, statics = words[0] >> 32;
  std::vector<KeyNumber> sizes, strides, scalars;
  size_t at = 4;
  for (size_t k = 0; k < statics; ++k, ++at)
    scalars.push_back({at, "scalar argument (word " + std::to_string(k) + ")"});
  for (size_t i = 0; i < tensors; ++i) {
    const size_t dims = words[at + 1] >> 8 & 0xffffffff;
    const std::string who = "argument " + std::to_string(i);
    for (size_t d = 0; d < dims; ++d) {
      sizes.push_back({at + 2 + d, who + ": size " + std::to_string(d)});
      strides.push_back({at + 2 + dims + d, who + ": stride " + std::to_string(d)});
    }
    at += 2 + 2 * dims;
  }
  sizes.insert(sizes.end(), strides.begin(), strides.end());
  sizes.insert(sizes.end(), scalars.begin(), scalars.end());
  return sizes;
}

}  // namespace graft::runtime
