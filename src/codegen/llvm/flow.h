// Loops and branches, written at the builder's place with what they hold as callables.
#pragma once

#include <optional>

#include "codegen/llvm/arithmetic.h"

namespace graft::codegen {

/// How far it is between two numbers that are known; nothing where they are not.
inline std::optional<int64_t> distance(const llvm::Value* from, const llvm::Value* to) {
  const auto *first = llvm::dyn_cast<llvm::ConstantInt>(from),
             *last = llvm::dyn_cast<llvm::ConstantInt>(to);
  if (first == nullptr || last == nullptr) return std::nullopt;
  return last->getSExtValue() - first->getSExtValue();
}

class Flow {
 public:
  Flow(Builder& builder, llvm::Function* fn) : b_(builder), fn_(fn) {}

  llvm::Value* i64(int64_t k) { return b_.getInt64(static_cast<uint64_t>(k)); }
  llvm::Value* smaller(llvm::Value* a, llvm::Value* b) {
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a, b);
  }
  llvm::BasicBlock* block(const char* name) {
    return llvm::BasicBlock::Create(b_.getContext(), name, fn_);
  }

  /// for (i = from; i < to; i += step) body(i)
  template <class Body>
  void loop(llvm::Value* from, llvm::Value* to, int64_t step, Body body) {
    llvm::BasicBlock *before = b_.GetInsertBlock(), *run = block("loop"), *after = block("after");
    b_.CreateCondBr(b_.CreateICmpSLT(from, to), run, after);
    b_.SetInsertPoint(run);
    llvm::PHINode* index = b_.CreatePHI(b_.getInt64Ty(), 2);
    index->addIncoming(from, before);
    body(index);
    llvm::Value* next = b_.CreateNSWAdd(index, i64(step));
    index->addIncoming(next, b_.GetInsertBlock());
    b_.CreateCondBr(b_.CreateICmpSLT(next, to), run, after);
    b_.SetInsertPoint(after);
  }
  template <class Then, class Otherwise>
  void branch(llvm::Value* condition, Then then, Otherwise otherwise) {
    llvm::BasicBlock *yes = block("whole"), *no = block("part"), *after = block("after");
    b_.CreateCondBr(condition, yes, no);
    b_.SetInsertPoint(yes);
    then();
    b_.CreateBr(after);
    b_.SetInsertPoint(no);
    otherwise();
    b_.CreateBr(after);
    b_.SetInsertPoint(after);
  }

  template <class Then>
  void only_if(llvm::Value* condition, Then then) {
    llvm::BasicBlock *yes = block("then"), *after = block("after");
    b_.CreateCondBr(condition, yes, after);
    b_.SetInsertPoint(yes);
    then();
    b_.CreateBr(after);
    b_.SetInsertPoint(after);
  }
  /// Does test(i) hold for i = 0, step, … below `to` (at least one)? Ends at the first that fails.
  template <class Test>
  llvm::Value* all_of(llvm::Value* to, int64_t step, Test test) {
    llvm::BasicBlock *before = b_.GetInsertBlock(), *run = block("test"), *more = block("more"),
                     *after = block("tested");
    b_.CreateBr(run);
    b_.SetInsertPoint(run);
    llvm::PHINode* index = b_.CreatePHI(b_.getInt64Ty(), 2);
    index->addIncoming(i64(0), before);
    llvm::Value* holds = test(index);
    llvm::BasicBlock* tested = b_.GetInsertBlock();
    b_.CreateCondBr(holds, more, after);
    b_.SetInsertPoint(more);
    llvm::Value* next = b_.CreateNSWAdd(index, i64(step));
    index->addIncoming(next, more);
    b_.CreateCondBr(b_.CreateICmpSLT(next, to), run, after);
    b_.SetInsertPoint(after);
    llvm::PHINode* all = b_.CreatePHI(b_.getInt1Ty(), 2);
    all->addIncoming(b_.getFalse(), tested);
    all->addIncoming(b_.getTrue(), more);
    return all;
  }

  /// a and then b()
  template <class Then>
  llvm::Value* both(llvm::Value* a, Then b) {
    llvm::BasicBlock *before = b_.GetInsertBlock(), *yes = block("then"), *after = block("after");
    b_.CreateCondBr(a, yes, after);
    b_.SetInsertPoint(yes);
    llvm::Value* second = b();
    llvm::BasicBlock* last = b_.GetInsertBlock();
    b_.CreateBr(after);
    b_.SetInsertPoint(after);
    llvm::PHINode* result = b_.CreatePHI(b_.getInt1Ty(), 2);
    result->addIncoming(b_.getFalse(), before);
    result->addIncoming(second, last);
    return result;
  }

 protected:
  Builder& b_;
  llvm::Function* fn_;
};

}  // namespace graft::codegen
