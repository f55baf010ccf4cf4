// Where reductions end: partial results are combined, and the result is computed and stored.
#include <stdexcept>

#include "codegen/llvm/emitter.h"

namespace graft::codegen {

/// Is b better than a, or as good and at an earlier place?
llvm::Value* Emitter::replaces(int p, Best a, Best b) {
  llvm::Value* wins = better(p, b.first, a.first);
  llvm::Value* loses = better(p, a.first, b.first);
  llvm::Value* earlier = b_.CreateICmpSLT(b.second, a.second);
  return b_.CreateOr(wins, b_.CreateAnd(b_.CreateNot(loses), earlier));
}

Emitter::Best Emitter::best_of(int p, Best a, Best b) {
  llvm::Value* take = replaces(p, a, b);
  return {b_.CreateSelect(take, b.first, a.first), b_.CreateSelect(take, b.second, a.second)};
}

/// Halves again and again: neighbours in a fixed order, whatever the sizes.
llvm::Value* Emitter::total(int p) {
  const StatementPlan& plan = planned(p);
  bool finds = finds_place(reduction(p).op);
  std::vector<Best> parts;
  auto read = [&](const Accumulator& a) -> Best {
    llvm::Value* x =
        a.blocks ? block_of(p, a) : b_.CreateLoad(a.value->getAllocatedType(), a.value);
    llvm::Type* t = x->getType();
    if (a.lost) {
      // Of infinities nothing is lost that counts.
      llvm::Value* lost = b_.CreateLoad(t, a.lost);
      lost = b_.CreateSelect(arithmetic_.is_nan(lost), llvm::Constant::getNullValue(t), lost);
      x = b_.CreateFAdd(x, lost);
    }
    if (a.blocks) x = b_.CreateFAdd(b_.CreateLoad(t, a.blocks), x);
    return {x, finds ? b_.CreateLoad(a.place->getAllocatedType(), a.place) : nullptr};
  };
  auto join = [&](Best a, Best b) -> Best {
    return finds ? best_of(p, a, b) : Best{step(p, accumulated(p), a.first, b.first), nullptr};
  };
  if (plan.accumulate == Accumulate::Array) {
    auto [values, places] = array_pointers(p);
    llvm::Type* t = accumulator_type(p, accumulated(p));
    llvm::Value* from = finds ? places : values;
    if (finds) t = shaped(b_.getInt64Ty(), t);
    parts.push_back({b_.CreateAlignedLoad(t, from, llvm::Align(8)), nullptr});
    return parts[0].first;
  }
  const auto& all = accumulators_[static_cast<size_t>(p)];
  if (plan.accumulate != Accumulate::Lanes) {
    parts.push_back(read(all[copy_]));
  } else {
    for (const Accumulator& a : all) parts.push_back(read(a));
    for (; parts.size() > 1; parts.resize(parts.size() / 2))
      for (size_t k = 0; k < parts.size() / 2; ++k)
        parts[k] = join(parts[k], parts[k + parts.size() / 2]);
    for (int n = machine_.lanes / 2; n >= 1; n /= 2) {
      auto half = [&](llvm::Value* x, int first) -> llvm::Value* {
        if (!x) return nullptr;
        if (n == 1) return b_.CreateExtractElement(x, static_cast<uint64_t>(first));
        std::vector<int> order;
        for (int k = 0; k < n; ++k) order.push_back(first + k);
        return b_.CreateShuffleVector(x, order);
      };
      Best whole = parts[0];
      parts[0] = join({half(whole.first, 0), half(whole.second, 0)},
                      {half(whole.first, n), half(whole.second, n)});
    }
  }
  if (finds) return parts[0].second;
  return keeps_nan_apart(p) ? with_nan(p, parts[0].first) : parts[0].first;
}

/// The extreme of the numbers, or NaN where one came.
llvm::Value* Emitter::with_nan(int p, llvm::Value* extreme) {
  auto read = [&](const Accumulator& a) { return b_.CreateLoad(a.nan->getAllocatedType(), a.nan); };
  const auto& all = accumulators_[static_cast<size_t>(p)];
  bool lanes = planned(p).accumulate == Accumulate::Lanes;
  llvm::Value* nan = read(all[lanes ? 0 : copy_]);
  if (!lanes) return b_.CreateSelect(arithmetic_.is_nan(nan), nan, extreme);
  for (size_t k = 1; k < all.size(); ++k) {
    llvm::Value* more = read(all[k]);
    nan = b_.CreateSelect(arithmetic_.is_nan(more), more, nan);
  }
  llvm::Value* any = b_.CreateOrReduce(arithmetic_.is_nan(nan));
  return b_.CreateSelect(any, llvm::ConstantFP::getNaN(extreme->getType()), extreme);
}

void Emitter::set_reduced(int p, llvm::Value* x) {
  if (reduction(p).type == ScalarType::Bool) x = to_register(x, ScalarType::Bool);
  if (!finds_place(reduction(p).op)) x = arithmetic_.cast(x, accumulated(p), reduction(p).type);
  int v = planned(p).reduced;
  // In a vector loop the result counts as varying, also where one accumulator served all lanes.
  if (value(v).varying && !x->getType()->isVectorTy()) x = splat(x);
  remember(v, x);
}

void Emitter::finish_reduction(int p) {
  auto result = [&] {
    set_reduced(p, total(p));
    store(p);
  };
  if (planned(p).accumulate == Accumulate::Array) {
    array_loop(p, result);
    return;
  }
  for (copy_ = 0; copy_ < copies(); ++copy_) result();
  copy_ = 0;
}

/// A loop over the variable that the accumulator array runs along.
void Emitter::array_loop(int p, const Body& body) {
  int l = planned(p).array_loop;
  auto each = [&] {
    for (copy_ = 0; copy_ < copies(); ++copy_) body();
    copy_ = 0;
  };
  if (loop(l).vector)
    vector_loop(l, i64(0), extent(loop(l).var), each);
  else
    counted(l, i64(0), extent(loop(l).var), 1, true, [&](llvm::Value*) { each(); });
}

/// Where the array's values, and the places found, are for the current index.
std::pair<llvm::Value*, llvm::Value*> Emitter::array_pointers(int p) {
  int var = loop(planned(p).array_loop).var;
  size_t f = frames_.size() - 1;
  while (loop(frames_[f].loop).var != var) --f;
  llvm::Value* index = loop(frames_[f].loop).vector ? lanes_[copy_].index : frames_[f].index;
  llvm::Value* base = b_.CreateGEP(b_.getInt8Ty(), scratch_, integer(laid_out(p).array));
  llvm::Value* values = b_.CreateGEP(mem(accumulated(p)), base, index);
  if (!finds_place(reduction(p).op)) return {values, nullptr};
  // After array_entries() words for the values.
  llvm::Value* room = b_.CreateAnd(b_.CreateAdd(extent(var), i64(127)), i64(-64));
  return {values, b_.CreateGEP(b_.getInt64Ty(), b_.CreateGEP(b_.getInt64Ty(), base, room), index)};
}

}  // namespace graft::codegen
