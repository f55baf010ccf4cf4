// What the decoder's layers are made of, with Hugging Face's numerics: for a whole sequence
// (model.h) and for tokens behind a cache (session.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>

#include "workloads/decoder/config.h"

namespace graft::workloads::decoder {

/// Throws std::invalid_argument if one of the ids is not in the vocabulary. `came`: what is said of
/// them first.
void check_in_vocabulary(const std::string& came, const at::Tensor& ids, int64_t vocabulary);

/// Computes in fp32; the result has x's type.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

/// What rotates the queries and keys of positions 0 to `length` - 1: cosines and sines
/// [length, head_dim].
std::pair<at::Tensor, at::Tensor> rotations(const Config& config, int64_t length,
                                            at::ScalarType dtype);

/// x [..., S, head_dim] by cos and sin [S, head_dim]. The first half of a head is paired with the
/// second, not even places with odd ones.
at::Tensor rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin);

}  // namespace graft::workloads::decoder
