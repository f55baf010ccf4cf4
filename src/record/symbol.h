// Numbers that stand for themselves in a recorded run: c10::Scalars whose value is a tensor's.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Scalar.h>
#include <c10/core/SymFloat.h>

namespace graft::record {

/// A Scalar of the value of `number`, a 0-dim fp64 tensor. In a recorded run operators that get it
/// are recorded with the tensor; outside of one it is a plain number.
c10::Scalar scalar_of(const at::Tensor& number);
/// Likewise, whether or not a run is recorded.
c10::SymFloat symbol_of(const at::Tensor& number);

/// The tensor that a Scalar stands for; null if it is a plain number, or no number.
const at::Tensor* number_behind(const c10::IValue& value);

}  // namespace graft::record
