// Vector loops that end where a mask leaves out the rest of the row (ir::Placed::quiet).
#include <algorithm>
#include <bit>
#include <limits>

#include "codegen/llvm/emitter.h"
#include "codegen/llvm/flow.h"

namespace graft::codegen {

namespace {

/// Bounds are multiples of so many elements, which no loop's vectors straddle: sums keep their
/// order, and lanes their alignment.
constexpr int64_t kWholeVectors = 64;

}  // namespace

/// Are all its statements, with one pair of bounds?
bool Emitter::is_quiet(int l) const {
  if (loop(l).items.empty() || loop(l).strips) return false;
  const std::vector<int>* first = nullptr;
  for (const PlanItem& item : loop(l).items) {
    if (item.placed < 0 || planned(item.placed).quiet.empty()) return false;
    const std::vector<int>& own = planned(item.placed).quiet;
    if (first != nullptr && !std::equal(own.begin(), own.begin() + 2, first->begin())) return false;
    first = &own;
  }
  return true;
}

/// What earlier loops deferred is stored, where this one reads it outside of their bounds: it does
/// where `inside` is false.
void Emitter::store_deferred(int l, llvm::Value* inside) {
  for (const PlanItem& item : loop(l).items) {
    if (item.placed < 0) continue;
    for (const ir::Access& load :
         kernel_.placed[static_cast<size_t>(item.placed)].statement.loads) {
      const auto found = deferred_.find(load.storage);
      if (found == deferred_.end() || found->second.loop == l) continue;
      const Deferred& was = found->second;
      Flow(b_, fn_).only_if(b_.CreateAnd(b_.CreateNot(inside), was.inside),
                            [&] { fill_outside(was); });
    }
  }
}

/// The part of the loop that has to run, after what the statements store in the rest is stored.
std::pair<llvm::Value*, llvm::Value*> Emitter::needed_part(int l) {
  const std::vector<PlanItem>& items = loop(l).items;
  llvm::Value* const size = extent(loop(l).var);
  llvm::Value* all_finite = b_.getTrue();
  for (const PlanItem& item : items) {
    const std::vector<int>& quiet = planned(item.placed).quiet;
    for (size_t k = 2; k < quiet.size(); ++k) {
      llvm::Value* x = get(quiet[k]);
      llvm::Value* infinite =
          llvm::ConstantFP::get(x->getType(), std::numeric_limits<double>::infinity());
      x = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
      all_finite = b_.CreateAnd(all_finite, b_.CreateFCmpOLT(x, infinite));
    }
  }
  const std::vector<int>& bounds = planned(items.front().placed).quiet;
  const auto least = [&](llvm::Value* a, llvm::Value* b) {
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a, b);
  };
  llvm::Value* from = b_.CreateAnd(get(bounds[0]), i64(-kWholeVectors));
  llvm::Value* to =
      b_.CreateAnd(b_.CreateAdd(get(bounds[1]), i64(kWholeVectors - 1)), i64(-kWholeVectors));
  to = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, least(to, size), from);
  from = b_.CreateSelect(all_finite, from, i64(0));
  to = b_.CreateSelect(all_finite, least(to, size), size);
  for (const PlanItem& item : items) {
    const ir::Placed& placed = kernel_.placed[static_cast<size_t>(item.placed)];
    if (placed.statement.reduction || !planned(item.placed).stores) continue;
    llvm::Value* base = uniform_pointer(laid_out(item.placed).store.access, {});
    llvm::Value* value = arithmetic_.constant(std::bit_cast<int64_t>(placed.quiet->value),
                                              placed.statement.store.dtype);
    const Deferred outside{l, base, value, from, to, size, all_finite};
    if (placed.quiet->deferred)
      deferred_[placed.statement.store.storage] = outside;
    else
      fill_outside(outside);
  }
  store_deferred(l, all_finite);
  return {from, to};
}

void Emitter::fill_outside(const Deferred& rest) {
  fill(rest.base, rest.value, i64(0), rest.from);
  fill(rest.base, rest.value, rest.to, rest.size);
}

/// Stores the value at all elements of [from, to); whole vectors at first, several at a time.
void Emitter::fill(llvm::Value* base, llvm::Value* value, llvm::Value* from, llvm::Value* to) {
  constexpr int kAtOnce = 4;
  llvm::Value* whole =
      b_.CreateAnd(b_.CreateSub(to, from), i64(-int64_t{kAtOnce} * machine_.lanes));
  whole = b_.CreateAdd(from, whole);
  Flow(b_, fn_).loop(from, whole, int64_t{kAtOnce} * machine_.lanes, [&](llvm::Value* index) {
    for (int v = 0; v < kAtOnce; ++v)
      memory_.store(
          splat(value),
          b_.CreateGEP(value->getType(), base, b_.CreateAdd(index, i64(v * machine_.lanes))),
          nullptr);
  });
  from = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, from, whole);
  llvm::BasicBlock *before = b_.GetInsertBlock(), *run = block("fill"), *after = block("after");
  b_.CreateCondBr(b_.CreateICmpSLT(from, to), run, after);
  b_.SetInsertPoint(run);
  llvm::PHINode* index = b_.CreatePHI(b_.getInt64Ty(), 2);
  index->addIncoming(from, before);
  llvm::Value* left = b_.CreateTrunc(b_.CreateSub(to, index), b_.getInt32Ty());
  llvm::Value* on = b_.CreateICmpSLT(memory_.iota(b_.getInt32Ty()), splat(left));
  memory_.store(splat(value), b_.CreateGEP(value->getType(), base, index), on);
  llvm::Value* next = b_.CreateNSWAdd(index, i64(machine_.lanes));
  index->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLT(next, to), run, after);
  b_.SetInsertPoint(after);
}

}  // namespace graft::codegen
