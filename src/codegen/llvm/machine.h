// A target in LLVM's terms.
#pragma once

#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

#include "ir/target.h"

namespace graft::codegen {

/// The target's processor, held to vectors of its width.
struct Machine {
  /// LLVM names the processor that it runs on; throws std::runtime_error for another one's target.
  explicit Machine(const ir::Target& target);

  ir::Target target;
  int lanes;  ///< Target::lanes
  std::string triple, cpu, features;

  std::unique_ptr<llvm::TargetMachine> target_machine() const;
  int vector_bits() const { return lanes * 32; }
};

/// Of this process.
std::string host_triple();

}  // namespace graft::codegen
