// From a kernel to an object file: LLVM IR, a short list of optimisations, machine code.
#pragma once

#include <llvm/Support/MemoryBuffer.h>

#include <memory>
#include <string>

#include "codegen/llvm/machine.h"
#include "codegen/llvm/symbols.h"
#include "ir/kernel.h"

namespace graft::codegen {

struct ObjectCode {
  std::unique_ptr<llvm::MemoryBuffer> object;
  RoutineSymbols symbols;    ///< the routines that it calls
  std::string ir, assembly;  ///< when asked for
};

/// Compiles the kernel as function `name`. It changes `target`: one thread at a time may use one.
ObjectCode compile_object(const ir::Kernel& kernel, const std::string& name, const Machine& machine,
                          llvm::TargetMachine& target, bool keep_text);

}  // namespace graft::codegen
