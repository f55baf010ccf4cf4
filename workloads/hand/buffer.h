// Memory for the hand-written kernels' results.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "graft/workload.h"

namespace graft::workloads::hand {

/// A tensor like `t` in memory of its own, aligned to 2 MiB, on huge pages where the system has
/// them, with every page already touched.
at::Tensor warm_like(const at::Tensor& t);

/// `run` reads `inputs`, which it keeps alive, and overwrites `results`.
Call call_into(Tensors results, Tensors inputs, std::function<void()> run);

/// Should results of this many bytes be written past the caches? They would evict everything else.
inline bool worth_streaming(int64_t bytes) {
  return bytes >= (8 << 20);
}

/// The data of a contiguous CPU tensor; bf16 as its bits.
const float* floats(const at::Tensor& t);
const uint16_t* bf16s(const at::Tensor& t);
float* mutable_floats(const at::Tensor& t);
uint16_t* mutable_bf16s(const at::Tensor& t);

}  // namespace graft::workloads::hand
