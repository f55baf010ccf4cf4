// Calls of the routines in ir/routines.def.
#pragma once

#include <set>
#include <string>

#include "codegen/llvm/arithmetic.h"
#include "codegen/routine.h"

namespace graft::codegen {

class Calls {
 public:
  /// `symbols` gets the names of the routines that are called.
  Calls(Builder& builder, const Machine& machine, llvm::Module& module,
        std::set<std::string>& symbols)
      : b_(builder), machine_(machine), module_(module), symbols_(symbols) {}

  /// Where stack slots go: the end of this block, before its terminator.
  void set_prologue(llvm::BasicBlock* prologue) { prologue_ = prologue; }

  /// A call on scalars, or on each lane of vectors; `second` is null for routines of one argument.
  llvm::Value* call(ir::Routine routine, ScalarType type, llvm::Value* first, llvm::Value* second);
  /// A Vml routine over `count` (i32) elements in memory.
  void call_array(ir::Routine routine, ScalarType type, llvm::Value* count, llvm::Value* from,
                  llvm::Value* to);
  /// Gives MKL its number of threads back. Emitted at the function's one exit.
  void restore_threads();

 private:
  void call_vml(ir::Routine routine, ScalarType type, llvm::Value* count, llvm::Value* from,
                llvm::Value* to);
  llvm::Value* vml(ir::Routine routine, ScalarType type, llvm::Value* x);
  llvm::Value* sleef(const RoutineCall& call, llvm::Value* x, llvm::Value* y);
  llvm::Value* libm(const std::string& symbol, llvm::Value* x, llvm::Value* y);
  llvm::Value* fmod(const std::string& symbol, llvm::Value* x, llvm::Value* y);
  llvm::Function* make_fmod(const std::string& symbol, const std::string& name,
                            llvm::FixedVectorType* type);
  llvm::FunctionCallee pure(const std::string& symbol, llvm::Type* type, int arity);
  std::string name_of(const std::string& symbol);  ///< in the module
  void stay_on_thread();
  llvm::FunctionCallee set_threads();
  llvm::AllocaInst* slot(llvm::Type* type);
  llvm::Value* part(llvm::Value* vector, unsigned first, unsigned count);

  Builder& b_;
  const Machine& machine_;
  llvm::Module& module_;
  std::set<std::string>& symbols_;
  llvm::BasicBlock* prologue_ = nullptr;
  llvm::AllocaInst *count_ = nullptr, *mode_ = nullptr;
  llvm::Value* threads_ = nullptr;  ///< MKL's number of threads before the kernel changed it
};

}  // namespace graft::codegen
