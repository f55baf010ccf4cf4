// The next token from a decoder's logits: the most likely one, or one that is drawn.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace graft::workloads::decoder {

/// How tokens are chosen. The names, and the order in which they apply (temperature, then top-k,
/// then top-p of what is left), are those of Hugging Face's `generate`.
struct Sampling {
  double temperature = 0;  ///< logits are divided by it before the softmax; 0: the most likely one
  int64_t top_k = 0;       ///< only the so many most likely; 0: all
  double top_p = 1;  ///< only the fewest whose probabilities reach it, the most likely one always
  uint64_t seed = 0;
};

/// Chooses one token after another. The same seed and logits give the same tokens. Not
/// thread-safe.
class Sampler {
 public:
  /// Throws std::invalid_argument, with what came and what was expected, for a temperature below 0
  /// or not finite, a top_k below 0, and a top_p outside (0, 1].
  explicit Sampler(const Sampling& sampling);
  /// Of logits [vocabulary], floating: an id [1] (int64). Throws std::invalid_argument if none
  /// of them is a number above -infinity, or one is NaN or +infinity (unless it takes the most
  /// likely one).
  at::Tensor next(const at::Tensor& logits);

 private:
  Sampling sampling_;
  at::Generator generator_;
};

}  // namespace graft::workloads::decoder
