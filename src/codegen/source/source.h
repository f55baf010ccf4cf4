// A backend for people: kernels as readable C++, with the loops, roundings, routines and orders of
// summation of LLVM's code. Compiled by any C++20 compiler, it gives LLVM's bits.
#pragma once

#include <span>

#include "codegen/backend.h"

namespace graft::codegen {

/// One C++ file; `functions` are its extern "C" functions, of type KernelFn. Loops are plain scalar
/// ones. Throws std::runtime_error for what has no C++, naming it.
Code compile_source(std::span<const ir::Kernel* const> kernels, const ir::Target& target);

/// How the file is compiled, beside the input and output: integers wrap, and no multiply-add is
/// made that the kernel does not have, and no call of the C library replaced.
constexpr const char* kSourceFlags =
    "-std=c++20 -O1 -shared -fPIC -ffp-contract=off -fwrapv -fno-builtin -fno-strict-aliasing";

}  // namespace graft::codegen
