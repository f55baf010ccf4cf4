#include "codegen/llvm/machine.h"

#include <llvm/ADT/StringMap.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/SubtargetFeature.h>

#include <mutex>
#include <stdexcept>

#include "codegen/backend.h"

extern "C" {
void LLVMInitializeX86TargetInfo();
void LLVMInitializeX86Target();
void LLVMInitializeX86TargetMC();
void LLVMInitializeX86AsmPrinter();
}

namespace graft::codegen {

std::string host_triple() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
  return llvm::sys::getProcessTriple();
}

Machine::Machine(const ir::Target& made_for)
    : target(made_for), lanes(made_for.lanes), triple(host_triple()) {
  // A target without a processor's name is any that has its vectors: the host will do.
  const std::string here = host_target(1).cpu;
  if (!target.cpu.empty() && target.cpu != here)
    throw std::runtime_error("graft: LLVM compiles for the processor that it runs on, " + here +
                             "; the target is " + target.cpu);
  if (!target.avx2()) {
    cpu = "x86-64-v2";
    return;
  }
  cpu = llvm::sys::getHostCPUName().str();
  llvm::SubtargetFeatures all;
  for (const auto& [name, there] : llvm::sys::getHostCPUFeatures()) {
    bool wide = name.starts_with("avx512") || name.starts_with("avx10") || name == "evex512";
    bool fused = name == "fma" || name == "fma4";
    all.AddFeature(name, there && (target.avx512() || !wide) && (target.fma || !fused));
  }
  // Arithmetic is never done in fp16, and LLVM 19 swaps the sides of a masked vcmpph without
  // turning its relation where it reads one of them from the stack. Last, as other features bring
  // it back.
  all.AddFeature("avx512fp16", false);
  features = all.getString();
}

std::unique_ptr<llvm::TargetMachine> Machine::target_machine() const {
  std::string error;
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!found)
    throw std::runtime_error("graft: LLVM has no code generator for " + triple + ": " + error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::TargetMachine>(
      found->createTargetMachine(triple, cpu, features, options, llvm::Reloc::PIC_,
                                 llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default, true));
}

}  // namespace graft::codegen
