#include "codegen/llvm/compiler.h"

#include <llvm/Analysis/AliasAnalysis.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include <set>
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

Code compile_object(std::span<const ir::Kernel* const> kernels, const Machine& machine,
                    llvm::TargetMachine& emitter, std::vector<Listing>* listings) {
  Code code;
  llvm::LLVMContext context;
  llvm::Module module("graft", context);
  module.setTargetTriple(machine.triple);
  module.setDataLayout(emitter.createDataLayout());
  std::set<std::string> symbols;
  for (const ir::Kernel* kernel : kernels) {
    Binding binding;
    Layout layout = lay_out(*kernel, binding);
    KernelPlan plan = make_plan(*kernel, layout);
    code.functions.push_back("graft_kernel_" + std::to_string(code.functions.size()));
    Emitter(module, machine, *kernel, layout, plan, symbols).emit(code.functions.back());
    std::string wrong;
    llvm::raw_string_ostream stream(wrong);
    if (llvm::verifyFunction(*module.getFunction(code.functions.back()), &stream))
      throw std::runtime_error("graft: kernel " + kernel->name +
                               " became malformed LLVM IR: " + wrong);
  }
  code.symbols.assign(symbols.begin(), symbols.end());
  optimise(module, emitter);
  if (listings != nullptr) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    module.print(stream, nullptr);
    stream.flush();
    listings->push_back({"ll", std::move(text)});
    auto assembly =
        generate(*llvm::CloneModule(module), emitter, llvm::CodeGenFileType::AssemblyFile);
    listings->push_back({"s", {assembly.begin(), assembly.end()}});
  }
  auto object = generate(module, emitter, llvm::CodeGenFileType::ObjectFile);
  code.bytes.assign(object.begin(), object.end());
  return code;
}

}  // namespace graft::codegen
