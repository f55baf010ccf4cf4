// Formula routines written out in the kernel (codegen/array_formulas.h). With AVX-512 their
// tables lie in registers.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>

#include "codegen/llvm/arithmetic.h"
#include "ir/expr.h"

namespace graft::codegen {

/// Of a vector, or of one number. `log`: calls the C library's, of Doubles.
llvm::Value* array_formula(Builder& builder, const Machine& machine, llvm::Module& module,
                           ir::Routine routine, llvm::Value* x,
                           llvm::function_ref<llvm::Value*(llvm::Value*)> log);

}  // namespace graft::codegen
