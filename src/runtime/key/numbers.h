// Which words of a plan key are numbers: sizes, strides, and scalar arguments.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace graft::runtime {

struct KeyNumber {
  size_t place;      ///< into the key's words
  std::string name;  ///< "argument 0: size 1"
};
/// Sizes of all tensors first, then strides, then words of scalars, of which some may be no
/// numbers.
std::vector<KeyNumber> numbers_of(std::span<const uint64_t> words);

}  // namespace graft::runtime
