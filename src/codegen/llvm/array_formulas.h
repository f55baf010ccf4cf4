// Formula routines written out in the kernel (codegen/array_formulas.h). With AVX-512 their
// tables lie in registers.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>

#include "codegen/llvm/arithmetic.h"
#include "ir/expr.h"

namespace graft::codegen {

/// What they call for numbers beyond their formula.
struct FormulaCalls {
  llvm::function_ref<llvm::Value*(llvm::Value*)> log;  ///< the C library's, of Doubles
  /// MKL's function, of all lanes.
  llvm::function_ref<llvm::Value*(ir::Routine array, llvm::Value*)> library;
};

/// Of a vector, or of one number.
llvm::Value* array_formula(Builder& builder, const Machine& machine, llvm::Module& module,
                           ir::Routine routine, llvm::Value* x, const FormulaCalls& calls);

}  // namespace graft::codegen
