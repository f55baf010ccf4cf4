// Which operator and region a thread is in, as ATen's observers say. Used by the memory tracker.
#pragma once

#include <ATen/record_function.h>

#include <string>

namespace graft::lab::detail {

struct Label {
  std::string op, region;
};
/// Of the calling thread, now. Empty where no observer has seen it enter an operator.
Label current_label();

/// The observer that keeps current_label() up to date on threads that it is added to.
at::RecordFunctionCallback label_observer();

}  // namespace graft::lab::detail
