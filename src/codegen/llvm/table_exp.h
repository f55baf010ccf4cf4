// Routine::TableExp written out in the kernel: its tables lie in registers.
#pragma once

#include "codegen/llvm/arithmetic.h"

namespace graft::codegen {

/// Of a vector, or of one number.
llvm::Value* table_exp(Builder& builder, const Machine& machine, llvm::Module& module,
                       llvm::Value* x);

}  // namespace graft::codegen
