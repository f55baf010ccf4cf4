// Routines written out in the kernel, so that no call clobbers its registers.
#pragma once

#include "codegen/llvm/arithmetic.h"

namespace graft::codegen {

/// e^x of Float or Double, scalar or vector: SLEEF's exp_u10, step by step; within 1 ulp, denormals
/// kept unless it `flushes` those of Float.
llvm::Value* inline_exp(Builder& builder, const Machine& machine, llvm::Value* x, bool flushes);
}  // namespace graft::codegen
