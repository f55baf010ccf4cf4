// Faster routines for the operators that draw random numbers, with ATen's own bits and generators:
// ATen makes one number at a time, on one thread.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace graft::runtime {

/// Leaves the operator's results on the stack in place of its arguments, and returns true; or does
/// nothing and returns false, where only the operator itself can tell what comes of these.
using Draw = bool (*)(torch::jit::Stack& stack);

/// Null where there is none for the operator, or where it does not give this libtorch's bits on
/// this machine, which is tried once in a process. Thread-safe.
Draw draw_of(const c10::OperatorHandle& op);

}  // namespace graft::runtime
