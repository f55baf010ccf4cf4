// What the quantiser throws.
#pragma once

#include <stdexcept>

namespace graft::quantizer {

/// A layer that cannot be quantised, or invalid settings. The text names the layer (or tensor),
/// what came, what was expected and what to do.
class GptqError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace graft::quantizer
