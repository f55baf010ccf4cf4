// Between what ATen's operators are given and a program's constants.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include "ir/extern.h"

namespace graft::ops {

/// Opaque where the value has no form of its own.
ir::Constant constant_of(const c10::IValue& value);
/// A number that is passed as a tensor.
ir::Constant constant_of(const c10::Scalar& number, c10::ScalarType dtype, bool wrapped);

/// What an argument of the schema's `type` is given. Throws std::logic_error where the constant
/// does not fit the type, or was read from text and has no text form.
c10::IValue value_of(const ir::Constant& constant, const c10::TypePtr& type);

}  // namespace graft::ops
