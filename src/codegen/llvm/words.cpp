// Vector loops over BFloat16 alone take two vectors of an iteration as the halves of one vector of
// words: the even elements are the low halves, the odd ones the high halves. A high half is a Float
// as it stands, once what is below is masked away; a low half has to be shifted. To widen and to
// narrow vectors in the elements' order takes shuffles.
#include <algorithm>

#include "codegen/llvm/emitter.h"

namespace graft::codegen {

namespace {

constexpr uint64_t kHighHalf = 0xffff0000;

bool is_extreme(ir::ReduceOp op) {
  return op == ir::ReduceOp::Max || op == ir::ReduceOp::Min;
}

}  // namespace

/// May the vectors of the open loop have their lanes in that order?
bool Emitter::has_words(int l) const {
  const LoopPlan& at = loop(l);
  if (!machine_.target.avx512() || at.nested || at.strips || copies() % 2 != 0) return false;
  auto is_narrow = [&](int access) {
    const AffineAccess& affine = layout_.accesses[static_cast<size_t>(access)];
    const Shape& shape = layout_.shapes[static_cast<size_t>(affine.shape)];
    return affine.dtype == ScalarType::BFloat16 && affine.vectors == 0 &&
           shape.strides[static_cast<size_t>(at.var)].kind == StrideKind::One;
  };
  std::vector<int> stored;  // accesses
  for (const PlanItem& item : at.items) {
    const StatementPlan& s = planned(item.placed);
    if (!s.joined.empty() || laid_out(item.placed).product) return false;
    if (s.accumulate != Accumulate::None) {
      if (s.accumulate != Accumulate::Lanes || s.scan || !is_extreme(reduction(item.placed).op))
        return false;  // the order in which terms add up is the elements'
      continue;
    }
    if (!s.stores) continue;
    const int access = laid_out(item.placed).store.access;
    if (!is_narrow(access) || varies(s.store_indirect)) return false;
    stored.push_back(access);
  }
  // A vector's loads go before the stores of the one before it.
  auto is_same_place = [&](int access) {
    return std::all_of(stored.begin(), stored.end(), [&](int other) {
      const auto storage = [&](int a) { return layout_.accesses[static_cast<size_t>(a)].storage; };
      return access == other || storage(access) != storage(other);
    });
  };
  return std::all_of(plan_.values.begin(), plan_.values.end(), [&](const PlanValue& v) {
    if (!v.varying || v.home != l) return true;
    if (v.op == ir::Op::Axis || v.digit || v.table_value >= 0) return false;
    return v.op != ir::Op::Load ||
           (is_narrow(v.access) && is_same_place(v.access) && !varies(v.indirect));
  });
}

/// The half that belongs to the current vector.
llvm::Value* Emitter::load_word_half(const PlanValue& v, llvm::Value* base) {
  const AffineAccess& affine = layout_.accesses[static_cast<size_t>(v.access)];
  std::vector<LoadedRun>& runs = frame_at(at_depth_).runs;
  const size_t pair = copy_ / 2;
  auto known = std::find_if(runs.begin(), runs.end(), [&](const LoadedRun& r) {
    return r.first == v.access && r.version == v.version && r.copy == pair;
  });
  llvm::Type* words = lanes_of(b_.getInt32Ty());
  if (known == runs.end()) {
    llvm::Value* place = b_.CreateGEP(mem(affine.dtype), base, lanes_[2 * pair].index);
    if (affine.ahead > 0) fetch_ahead(affine, place);
    llvm::Value* loaded =
        b_.CreateAlignedLoad(words, place, llvm::Align(c10::elementSize(affine.dtype)));
    known = runs.insert(runs.end(), {v.access, v.version, pair, {loaded}});
  }
  llvm::Value* both = known->run.low;
  llvm::Value* bits = is_low_half() ? b_.CreateShl(both, 16)
                                    : b_.CreateAnd(both, llvm::ConstantInt::get(words, kHighHalf));
  return arithmetic_.narrowed(b_.CreateBitCast(bits, lanes_of(b_.getFloatTy())));
}

/// Stored with the second of two vectors.
void Emitter::store_word_half(int p, llvm::Value* base) {
  const int v = planned(p).value;
  llvm::Value* own = wide(v);
  if (is_low_half()) return;
  --copy_;
  llvm::Value *low = wide(v), *first = lanes_[copy_].index;
  ++copy_;
  llvm::Type* words = lanes_of(b_.getInt32Ty());
  llvm::Value* both =
      b_.CreateOr(b_.CreateZExt(low, words), b_.CreateShl(b_.CreateZExt(own, words), 16));
  const ScalarType type = layout_.accesses[static_cast<size_t>(laid_out(p).store.access)].dtype;
  llvm::Value* place = b_.CreateGEP(mem(type), base, first);
  if (laid_out(p).streamed)
    memory_.stream(both, place);
  else
    b_.CreateAlignedStore(both, place, llvm::Align(c10::elementSize(type)));
}

}  // namespace graft::codegen
