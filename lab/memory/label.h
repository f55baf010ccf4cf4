// Which operator and region a thread is in, as seen by ATen's observers. For the memory tracker.
#pragma once

#include <ATen/record_function.h>

#include <string>

namespace graft::lab::detail {

struct Label {
  std::string op, region;
};
/// The label of the calling thread now. Empty if no observer saw it enter an operator.
Label current_label();

/// The observer that keeps current_label() up to date on the threads where it is installed.
at::RecordFunctionCallback label_observer();

}  // namespace graft::lab::detail
