// What code is generated for: the host, held to the width of the vectors that ATen's own kernels
// use now.
#pragma once

#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

namespace graft::codegen {

struct Machine {
  int lanes = 4;  ///< of 32 bits: codegen::vector_lanes()
  bool avx2 = false, avx512 = false;
  bool fma = false;
  std::string triple, cpu, features;

  static const Machine& host();
  std::unique_ptr<llvm::TargetMachine> target_machine() const;
  int vector_bits() const { return lanes * 32; }
};

}  // namespace graft::codegen
