#include "codegen/llvm/emitter.h"

#include <llvm/Analysis/AssumptionCache.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Utils/PromoteMemToReg.h>

namespace graft::codegen {

Emitter::Emitter(llvm::Module& module, const Machine& machine, const ir::Kernel& kernel,
                 const Layout& layout, const KernelPlan& plan, std::set<std::string>& symbols)
    : module_(module),
      machine_(machine),
      kernel_(kernel),
      layout_(layout),
      plan_(with_tables(plan, machine)),
      near_(NearMath::is_supported(machine) ? near_roundings(plan_) : std::vector<Near>()),
      b_(module.getContext()),
      arithmetic_(b_, machine),
      memory_(b_, machine, machine.lanes),
      calls_(b_, machine, module, symbols),
      emitted_(plan_.values.size()),
      accumulators_(plan.statements.size()),
      steps_(plan.statements.size()),
      counters_(kernel.vars.size()),
      offsets_(layout.shapes.size()) {}

llvm::Function* Emitter::emit(const std::string& name) {
  llvm::Type* word = b_.getInt64Ty();
  auto* signature =
      llvm::FunctionType::get(b_.getVoidTy(), {b_.getPtrTy(), b_.getPtrTy(), word, word}, false);
  fn_ = llvm::Function::Create(signature, llvm::Function::ExternalLinkage, name, module_);
  fn_->setDoesNotThrow();
  std::string width = std::to_string(machine_.vector_bits());
  fn_->addFnAttr("prefer-vector-width", width);
  fn_->addFnAttr("min-legal-vector-width", width);
  fn_->addFnAttr("no-builtins");
  fn_->addFnAttr("target-cpu", machine_.cpu);
  fn_->addFnAttr("target-features", machine_.features);
  llvm::Argument* args = fn_->getArg(0);
  scratch_ = fn_->getArg(1);
  begin_ = fn_->getArg(2);
  end_ = fn_->getArg(3);
  fn_->getArg(0)->addAttr(llvm::Attribute::NoAlias);
  fn_->getArg(0)->addAttr(llvm::Attribute::ReadOnly);

  prologue_ = block("prologue");
  llvm::BasicBlock *work = block("work"), *done = block("done");
  b_.SetInsertPoint(prologue_);
  auto field = [&](unsigned index) {
    llvm::Value* place = b_.CreateConstInBoundsGEP1_32(b_.getPtrTy(), args, index);
    return b_.CreateLoad(b_.getPtrTy(), place);
  };
  pointers_ = field(0);
  integers_ = field(1);
  scalars_ = field(2);
  // An empty range touches no memory and forms no address.
  b_.CreateCondBr(b_.CreateICmpSLT(begin_, end_), work, done);
  b_.SetInsertPoint(work);
  calls_.set_prologue(prologue_);
  llvm::Value* spare = stack(b_.getInt64Ty());
  b_.CreateStore(i64(0), spare);
  memory_.set_spare(spare);

  frames_.push_back({});
  if (layout_.range == RangeKind::Flattened)
    range_loop();
  else
    items(0);
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
  calls_.restore_threads();
  memory_.fence();
  b_.CreateRetVoid();

  llvm::DominatorTree dominators(*fn_);
  llvm::PromoteMemToReg(promotable_, dominators);
  return fn_;
}

llvm::AllocaInst* Emitter::stack(llvm::Type* type, llvm::Value* count, uint64_t align) {
  llvm::IRBuilder<> at(prologue_, prologue_->getFirstInsertionPt());
  llvm::AllocaInst* made = at.CreateAlloca(type, count);
  if (align != 0) made->setAlignment(llvm::Align(align));
  return made;
}

llvm::AllocaInst* Emitter::variable(llvm::Type* type) {
  promotable_.push_back(stack(type));
  return promotable_.back();
}

llvm::Value* Emitter::argument(llvm::Value* table, int slot, llvm::Type* type) {
  llvm::Value*& known = arguments_[{table, slot}];
  if (known) return known;
  llvm::IRBuilder<> at(prologue_->getTerminator());
  llvm::LoadInst* made =
      at.CreateLoad(type, at.CreateConstInBoundsGEP1_32(type, table, static_cast<unsigned>(slot)));
  made->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(b_.getContext(), {}));
  return known = made;
}

llvm::Value* Emitter::integer(int slot) {
  return argument(integers_, slot, b_.getInt64Ty());
}

llvm::Value* Emitter::extent(int var) {
  auto v = static_cast<size_t>(var);
  if (layout_.fixed[v] > 0) return i64(layout_.fixed[v]);
  llvm::Value* first = integer(layout_.extent[v]);
  if (layout_.growth[v].kind == StrideKind::Zero) return first;
  int step = kernel_.vars[v].step;
  if (layout_.extent[static_cast<size_t>(step)] < 0) return first;  // one step: a dissolved loop
  for (size_t f = frames_.size(); f-- > 0;)
    if (loop(frames_[f].loop).var == step)
      return b_.CreateAdd(first, b_.CreateMul(frames_[f].index, stride(layout_.growth[v])));
  throw std::runtime_error("graft: kernel " + kernel_.name + ": an extent follows no open loop");
}

llvm::Value* Emitter::range_counter(int var) {
  auto v = static_cast<size_t>(var);
  return b_.CreateLoad(b_.getInt64Ty(), counters_[v]);
}

llvm::Value* Emitter::range_offset(int shape) {
  return b_.CreateLoad(b_.getInt64Ty(), offsets_[static_cast<size_t>(shape)]);
}

/// Iterations [begin, end) of the flattened range. Divides once, to find where `begin` is, and
/// counts from there.
void Emitter::range_loop() {
  std::vector<int> vars;
  for (int v : kernel_.range)
    if (layout_.extent[static_cast<size_t>(v)] >= 0) vars.push_back(v);
  llvm::Value* rest = begin_;
  for (size_t k = vars.size(); k-- > 0;) {
    auto v = static_cast<size_t>(vars[k]);
    counters_[v] = variable(b_.getInt64Ty());
    bool outermost = k == 0;
    b_.CreateStore(outermost ? rest : b_.CreateURem(rest, extent(vars[k])), counters_[v]);
    if (!outermost) rest = b_.CreateUDiv(rest, extent(vars[k]));
  }
  for (size_t s = 0; s < offsets_.size(); ++s) {
    llvm::Value* offset = nullptr;
    for (int v : vars) {
      const Stride& along = layout_.shapes[s].strides[static_cast<size_t>(v)];
      if (along.kind == StrideKind::Zero) continue;
      llvm::Value* part = b_.CreateMul(range_counter(v), stride(along));
      offset = offset ? b_.CreateAdd(offset, part) : part;
    }
    if (!offset) continue;
    offsets_[s] = variable(b_.getInt64Ty());
    b_.CreateStore(offset, offsets_[s]);
  }
  counted(1, begin_, end_, 1, true, [&](llvm::Value*) {
    items(1);
    next_range_iteration(vars);
  });
}

void Emitter::next_range_iteration(const std::vector<int>& vars) {
  if (vars.empty()) return;
  int last = vars.back();
  auto stride_of = [&](size_t shape, int var) {
    return layout_.shapes[shape].strides[static_cast<size_t>(var)];
  };
  auto slot = [&](int var) { return counters_[static_cast<size_t>(var)]; };
  llvm::Value* next = b_.CreateAdd(range_counter(last), i64(1));
  b_.CreateStore(next, slot(last));
  for (size_t s = 0; s < offsets_.size(); ++s)
    if (stride_of(s, last).kind != StrideKind::Zero)
      b_.CreateStore(b_.CreateAdd(range_offset(static_cast<int>(s)), stride(stride_of(s, last))),
                     offsets_[s]);
  if (vars.size() == 1) return;

  llvm::BasicBlock *carry = block("carry"), *counted = block("counted");
  b_.CreateCondBr(b_.CreateICmpEQ(next, extent(last)), carry, counted);
  b_.SetInsertPoint(carry);
  b_.CreateStore(i64(0), slot(last));
  llvm::Value* carrying = b_.getTrue();
  for (size_t k = vars.size() - 1; k-- > 0;) {
    llvm::Value* count =
        b_.CreateAdd(range_counter(vars[k]), b_.CreateZExt(carrying, b_.getInt64Ty()));
    if (k > 0) {
      carrying = b_.CreateICmpEQ(count, extent(vars[k]));
      count = b_.CreateSelect(carrying, i64(0), count);
    }
    b_.CreateStore(count, slot(vars[k]));
  }
  for (size_t s = 0; s < offsets_.size(); ++s) {
    if (!offsets_[s]) continue;
    llvm::Value* offset = i64(0);
    for (int v : vars)
      if (stride_of(s, v).kind != StrideKind::Zero)
        offset = b_.CreateAdd(offset, b_.CreateMul(range_counter(v), stride(stride_of(s, v))));
    b_.CreateStore(offset, offsets_[s]);
  }
  b_.CreateBr(counted);
  b_.SetInsertPoint(counted);
}

}  // namespace graft::codegen
