#include "codegen/llvm/emitter.h"

namespace graft::codegen {

namespace {

/// Steps that are looked at before those among them that are a task's are run: their places stay in
/// the first cache.
constexpr int64_t kAtOnce = 1024;

}  // namespace

/// RangeKind::Rows: the steps whose index is in [begin, end). Which ones these are is written down
/// without a branch first, as nobody could foresee it.
void Emitter::rows_loop(int l) {
  const int index = planned(0).store_indirect[0].first;
  llvm::Value* count = extent(loop(l).var);
  llvm::AllocaInst* found = variable(b_.getInt64Ty());
  llvm::AllocaInst* list = stack(b_.getInt32Ty(), i64(kAtOnce), 64);
  llvm::BasicBlock *before = b_.GetInsertBlock(), *all = block("all"), *some = block("some"),
                   *after = block("after");
  b_.CreateCondBr(
      b_.CreateAnd(b_.CreateICmpEQ(begin_, i64(0)), b_.CreateICmpEQ(end_, integer(layout_.rows))),
      all, some);

  auto steps = [&](llvm::Value* from, llvm::Value* to,
                   const std::function<void(llvm::Value*)>& body) {
    repeated(from, to, 1, false, body);
  };
  auto run_step = [&](llvm::Value* step) {
    open(l, before, step);
    items(l);
    close();
  };

  b_.SetInsertPoint(all);
  steps(i64(0), count, run_step);
  b_.CreateBr(after);

  b_.SetInsertPoint(some);
  llvm::Value* blocks = b_.CreateUDiv(b_.CreateAdd(count, i64(kAtOnce - 1)), i64(kAtOnce));
  steps(i64(0), blocks, [&](llvm::Value* which) {
    llvm::Value* first = b_.CreateNSWMul(which, i64(kAtOnce));
    llvm::Value* last = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin,
                                                 b_.CreateNSWAdd(first, i64(kAtOnce)), count);
    b_.CreateStore(i64(0), found);
    steps(first, last, [&](llvm::Value* step) {
      open(l, before, step);
      llvm::Value* row = get(index);
      close();
      llvm::Value* known = b_.CreateLoad(b_.getInt64Ty(), found);
      b_.CreateStore(b_.CreateTrunc(b_.CreateSub(step, first), b_.getInt32Ty()),
                     b_.CreateGEP(b_.getInt32Ty(), list, known));
      llvm::Value* own = b_.CreateICmpULT(b_.CreateSub(row, begin_), b_.CreateSub(end_, begin_));
      b_.CreateStore(b_.CreateAdd(known, b_.CreateZExt(own, b_.getInt64Ty())), found);
    });
    steps(i64(0), b_.CreateLoad(b_.getInt64Ty(), found), [&](llvm::Value* k) {
      llvm::Value* offset = b_.CreateLoad(b_.getInt32Ty(), b_.CreateGEP(b_.getInt32Ty(), list, k));
      run_step(b_.CreateNSWAdd(first, b_.CreateZExt(offset, b_.getInt64Ty())));
    });
  });
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
}

}  // namespace graft::codegen
