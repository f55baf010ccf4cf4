#include "codegen/llvm/machine.h"

#include <llvm/ADT/StringMap.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/SubtargetFeature.h>

#include <stdexcept>

#include "codegen/backend.h"

extern "C" {
void LLVMInitializeX86TargetInfo();
void LLVMInitializeX86Target();
void LLVMInitializeX86TargetMC();
void LLVMInitializeX86AsmPrinter();
}

namespace graft::codegen {

namespace {

Machine detect() {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  Machine machine;
  machine.lanes = vector_lanes();
  machine.avx512 = machine.lanes == 16;
  machine.avx2 = machine.lanes >= 8;
  machine.triple = llvm::sys::getProcessTriple();
  if (machine.lanes == 4) {
    machine.cpu = "x86-64-v2";
    return machine;
  }
  machine.cpu = llvm::sys::getHostCPUName().str();
  llvm::SubtargetFeatures features;
  auto host = llvm::sys::getHostCPUFeatures();
  for (const auto& [name, there] : host) {
    bool wide = name.starts_with("avx512") || name.starts_with("avx10") || name == "evex512";
    features.AddFeature(name, there && (machine.avx512 || !wide));
  }
  machine.fma = host.lookup("fma");
  machine.features = features.getString();
  return machine;
}

}  // namespace

const Machine& Machine::host() {
  static const Machine machine = detect();
  return machine;
}

std::unique_ptr<llvm::TargetMachine> Machine::target_machine() const {
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    throw std::runtime_error("graft: LLVM has no code generator for " + triple + ": " + error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(triple, cpu, features, options, llvm::Reloc::PIC_,
                                  llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default, true));
}

}  // namespace graft::codegen
