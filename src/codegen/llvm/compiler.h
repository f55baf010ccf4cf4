// From kernels to an object file: LLVM IR, a short list of optimisations, machine code.
#pragma once

#include <span>
#include <vector>

#include "codegen/backend.h"
#include "codegen/llvm/machine.h"

namespace graft::codegen {

/// Not thread-safe in `emitter`, which is changed by use.
Code compile_object(std::span<const ir::Kernel* const> kernels, const Machine& machine,
                    llvm::TargetMachine& emitter, std::vector<Listing>* listings);

}  // namespace graft::codegen
