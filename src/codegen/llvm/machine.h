// What code is generated for: the host, with vectors of the width that ATen's own kernels use now.
#pragma once

#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

namespace graft::codegen {

struct Machine {
  int lanes = 4;  ///< 32-bit lanes of a vector: codegen::vector_lanes()
  bool avx2 = false, avx512 = false;
  bool fma = false;
  std::string triple, cpu, features;

  static const Machine& host();
  std::unique_ptr<llvm::TargetMachine> target_machine() const;
  int vector_bits() const { return lanes * 32; }
};

}  // namespace graft::codegen
