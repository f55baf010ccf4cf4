#include "codegen/llvm/compiler.h"

#include <llvm/Analysis/AliasAnalysis.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/SmallVectorMemoryBuffer.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include <stdexcept>

#include "codegen/llvm/emitter.h"

namespace graft::codegen {

namespace {

/// The code is in SSA form, vectorised, hoisted and free of repeats already: what is left is small
/// change.
void optimise(llvm::Module& module, llvm::TargetMachine& target) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&target);
  functions.registerPass([&] { return builder.buildDefaultAAPipeline(); });
  functions.registerPass([&] {
    llvm::TargetLibraryInfoImpl none(module.getTargetTriple().empty()
                                         ? target.getTargetTriple()
                                         : llvm::Triple(module.getTargetTriple()));
    none.disableAllFunctions();
    return llvm::TargetLibraryAnalysis(none);
  });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graphs, modules);
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::EarlyCSEPass());
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SimplifyCFGPass());
  for (llvm::Function& f : module)
    if (!f.isDeclaration()) passes.run(f, functions);
}

llvm::SmallVector<char, 0> generate(llvm::Module& module, llvm::TargetMachine& target,
                                    llvm::CodeGenFileType type) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (target.addPassesToEmitFile(passes, stream, nullptr, type, true))
    throw std::runtime_error("graft: LLVM cannot emit code for this machine");
  passes.run(module);
  return bytes;
}

}  // namespace

ObjectCode compile_object(const ir::Kernel& kernel, const std::string& name, const Machine& machine,
                          llvm::TargetMachine& target, bool keep_text) {
  ObjectCode code;
  Binding binding;
  Layout layout = lay_out(kernel, binding);
  Plan plan = make_plan(kernel, layout);
  llvm::LLVMContext context;
  llvm::Module module(name, context);
  module.setTargetTriple(machine.triple);
  module.setDataLayout(target.createDataLayout());
  Emitter(module, machine, kernel, layout, plan, code.symbols).emit(name);
  std::string wrong;
  llvm::raw_string_ostream stream(wrong);
  if (llvm::verifyModule(module, &stream))
    throw std::runtime_error("graft: kernel " + kernel.name +
                             " became malformed LLVM IR: " + wrong);
  optimise(module, target);
  if (keep_text) {
    llvm::raw_string_ostream text(code.ir);
    module.print(text, nullptr);
    text.flush();
    auto assembly =
        generate(*llvm::CloneModule(module), target, llvm::CodeGenFileType::AssemblyFile);
    code.assembly.assign(assembly.begin(), assembly.end());
  }
  code.object = std::make_unique<llvm::SmallVectorMemoryBuffer>(
      generate(module, target, llvm::CodeGenFileType::ObjectFile), name, false);
  return code;
}

}  // namespace graft::codegen
