// Routines written out in the kernel, so that no call clobbers its registers.
#pragma once

#include "codegen/llvm/arithmetic.h"

namespace graft::codegen {

/// e^x of Float or Double, scalar or vector: SLEEF's exp_u10, step by step; within 1 ulp, denormals
/// kept unless it `flushes` those of Float.
llvm::Value* inline_exp(Builder& builder, const Machine& machine, llvm::Value* x, bool flushes);

/// Are there instructions for those below? They take a vector of Floats.
bool has_near_instructions(const Machine& machine);
/// e^x, or e^-x. Of its relative error, in 2^-24, is |x| from rounding the exponent and 4 the rest.
llvm::Value* near_exp(Builder& builder, llvm::Value* x, bool negative);
/// x / d, with a relative error of 2.1 2^-24 for d whose reciprocal is a normal number.
llvm::Value* near_quotient(Builder& builder, llvm::Value* x, llvm::Value* d);

}  // namespace graft::codegen
