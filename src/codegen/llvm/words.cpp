// Vector loops over BFloat16 alone take two vectors of an iteration as the halves of one vector of
// words: the even elements are the low halves, the odd ones the high halves. A high half is a Float
// as it stands, once what is below is masked away; a low half has to be shifted. To widen and to
// narrow vectors in the elements' order takes shuffles.
#include <algorithm>

#include "codegen/llvm/emitter.h"

namespace graft::codegen {

/// May the vectors of the open loop have their lanes in that order? A vector's loads go before the
/// stores of the one before it, so what is stored is loaded, if at all, at the same place.
bool Emitter::has_words(int l) const {
  if (!machine_.target.avx512() || loop(l).nested || loop(l).strips || copies() % 2 != 0)
    return false;
  std::vector<WordPlace> places;
  if (!collect_stores(l, places)) return false;
  const auto stores = static_cast<std::ptrdiff_t>(places.size());
  if (!collect_loads(l, places)) return false;
  const auto access = [&](const WordPlace& place) -> const AffineAccess& {
    return layout_.accesses[static_cast<size_t>(place.access)];
  };
  return std::all_of(places.begin(), places.end(), [&](const WordPlace& place) {
    const AffineAccess& own = access(place);
    const Shape& shape = layout_.shapes[static_cast<size_t>(own.shape)];
    const Stride& stride = shape.strides[static_cast<size_t>(loop(l).var)];
    return own.dtype == ScalarType::BFloat16 && own.vectors == 0 &&
           stride.kind == StrideKind::One && !varies(*place.indirect) &&
           std::all_of(places.begin(), places.begin() + stores, [&](const WordPlace& other) {
             return access(other).storage != own.storage ||
                    (other.access == place.access && *other.indirect == *place.indirect);
           });
  });
}

/// Adds where the loop's statements store; false: there is one for which order matters.
bool Emitter::collect_stores(int l, std::vector<WordPlace>& places) const {
  for (const PlanItem& item : loop(l).items) {
    const StatementPlan& s = planned(item.placed);
    if (!s.joined.empty() || laid_out(item.placed).product) return false;
    if (s.accumulate != Accumulate::None) {
      if (s.accumulate != Accumulate::Lanes || s.scan || !is_extreme(reduction(item.placed).op))
        return false;  // the order in which terms add up is the elements'
    } else if (s.stores) {
      places.push_back({laid_out(item.placed).store.access, &s.store_indirect});
    }
  }
  return true;
}

/// Adds what the loop's lanes load; false: one has a value of its lane's number.
bool Emitter::collect_loads(int l, std::vector<WordPlace>& places) const {
  for (const PlanValue& v : plan_.values) {
    if (!v.varying || v.home != l) continue;
    if (v.op == ir::Op::Axis || v.digit || v.table_value >= 0) return false;
    if (v.op == ir::Op::Load) places.push_back({v.access, &v.indirect});
  }
  return true;
}

/// The half that belongs to the current vector.
llvm::Value* Emitter::load_word_half(const PlanValue& v, llvm::Value* base) {
  const AffineAccess& affine = layout_.accesses[static_cast<size_t>(v.access)];
  llvm::Type* words = lanes_of(b_.getInt32Ty());
  if (is_low_half()) {
    llvm::Value* place = b_.CreateGEP(mem(affine.dtype), base, lanes_[copy_].index);
    if (affine.ahead > 0) fetch_ahead(affine, place);
    words_loaded_[&v] =
        b_.CreateAlignedLoad(words, place, llvm::Align(c10::elementSize(affine.dtype)));
  }
  llvm::Value* both = words_loaded_.at(&v);
  llvm::Value* bits = is_low_half()
                          ? b_.CreateShl(both, 16)
                          : b_.CreateAnd(both, llvm::ConstantInt::get(words, kBFloat16Bits));
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
