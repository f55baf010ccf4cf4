// Squares of vectors, turned in registers.
#pragma once

#include "codegen/llvm/arithmetic.h"

namespace graft::codegen {

/// Vectors of `lanes` elements: in each of the blocks into which so many rows cut them, row i
/// becomes column i. In log2 rounds blocks off the diagonal change places.
void transpose(Builder& builder, int lanes, llvm::SmallVectorImpl<llvm::Value*>& rows);

}  // namespace graft::codegen
