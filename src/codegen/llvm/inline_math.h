// Routines written out in the kernel, so that no call clobbers its registers.
#pragma once

#include <string>

#include "codegen/llvm/arithmetic.h"

namespace graft::codegen {

/// e^x of Float or Double, scalar or vector: SLEEF's exp_u10, step by step; within 1 ulp, denormals
/// kept unless it `flushes` those of Float.
llvm::Value* inline_exp(Builder& builder, const Machine& machine, llvm::Value* x, bool flushes);

/// a * b + c, fused where the target does that.
llvm::Value* multiply_add(Builder& builder, const Machine& machine, llvm::Value* a, llvm::Value* b,
                          llvm::Value* c);

/// A function of vectors of one type in the kernel's module, which depends on its two arguments
/// alone. The builder goes to its first block.
llvm::Function* begin_helper(Builder& builder, llvm::Module& module, const std::string& name,
                             llvm::FixedVectorType* type);

/// x held to low … high; NaN stays.
llvm::Value* clamp(Builder& builder, llvm::Value* x, double low, double high);
/// That an instruction of AVX-512 rounds as the thread does.
constexpr uint32_t kUsualRounding = 4;
/// u * 2^floor(q), rounded once, of vectors of AVX-512's width.
llvm::Value* scale_by_power(Builder& builder, llvm::Value* u, llvm::Value* q);
}  // namespace graft::codegen
