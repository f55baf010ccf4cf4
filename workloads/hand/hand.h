// Hand-written C++ kernels for some regions: a reference for what the machine can do. They write to
// memory on huge pages that was allocated and touched once, and run on ATen's threads. Inputs must
// be contiguous.
//
// rope, swiglu's product, gptq_block and rmsnorm_residual's sum have eager's bits. Silu and softmax
// use another exp (within 1 ulp), and softmax and the norm add in another order; tests/workloads
// holds the tolerances.
#pragma once

#include <ATen/core/Tensor.h>

#include "graft/workload.h"

namespace graft::workloads::hand {

// The calls' `outputs` are the same tensors each time, overwritten by the next run.

// fp32 or bf16
Call rope(const at::Tensor& q, const at::Tensor& k, const at::Tensor& cos, const at::Tensor& sin);
Call rmsnorm_residual(const at::Tensor& x, const at::Tensor& r, const at::Tensor& w);  // bf16
Call swiglu(const at::Tensor& gate, const at::Tensor& up);            // fp32 or bf16
Call softmax_mask(const at::Tensor& scores, const at::Tensor& mask);  // fp32
// fp32
Call gptq_block(const at::Tensor& weights, const at::Tensor& Hinv, const at::Tensor& scale,
                const at::Tensor& zero);

}  // namespace graft::workloads::hand
