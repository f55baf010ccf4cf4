// From a row's name to the calls that ATen's schemas allow: every overload, its non-operand
// arguments chosen.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <string>
#include <string_view>
#include <vector>

#include "ops/pointwise.h"
#include "support/compare.h"

namespace graft::test {

/// An overload with everything but its tensors.
struct Form {
  c10::OperatorHandle op;
  /// One per argument of the schema; ignored where a tensor goes.
  std::vector<c10::IValue> constants = {};
  /// Schema arguments that are filled with tensors, in order; out= ones last.
  std::vector<int> tensor_at = {};
  int operands = 0;  ///< how many of those are operands
  bool in_place = false;
  bool out = false;
  int variant = 0;        ///< 0: the schema's defaults and plain numbers
  std::string text = {};  ///< "aten::add.Tensor alpha=2"

  const std::string& argument_name(int tensor) const {
    return op.schema()
        .arguments()[static_cast<size_t>(tensor_at[static_cast<size_t>(tensor)])]
        .name();
  }
};

/// Every overload of the row's operator that takes tensors and numbers, in-place and out= ones
/// included, with each of the interesting values of its other arguments.
std::vector<Form> forms(const ops::PointwiseRow& row);

/// Calls the operator. `tensors` fill Form::tensor_at.
Tensors call(const Form& form, const Tensors& tensors);

}  // namespace graft::test
