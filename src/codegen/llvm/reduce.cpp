#include <bit>
#include <limits>
#include <set>
#include <stdexcept>

#include "codegen/llvm/emitter.h"
#include "codegen/llvm/flow.h"

namespace graft::codegen {

using ir::ReduceOp;

ScalarType Emitter::accumulated(int p) const {
  return codegen::accumulated(plan_, reduction(p), p);
}

ScalarType Emitter::stepped(int p) const {
  return codegen::stepped(plan_, reduction(p), p);
}

/// Of one accumulator. Bool is kept as bytes, which vectors of every machine hold well.
llvm::Type* Emitter::accumulator_type(int p, ScalarType type) {
  llvm::Type* t = mem(type);
  Accumulate where = planned(p).accumulate;
  return where == Accumulate::Scalar || (where == Accumulate::Array && !in_lanes()) ? t
                                                                                    : lanes_of(t);
}

llvm::Constant* Emitter::identity(int p) {
  ReduceOp op = reduction(p).op;
  ScalarType type = accumulated(p);
  llvm::Type* t = mem(type);
  unsigned bits = t->getScalarSizeInBits();
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Or:
      return llvm::Constant::getNullValue(t);
    case ReduceOp::Prod:
      return arithmetic_.constant(is_float(type) ? std::bit_cast<int64_t>(1.0) : 1, type);
    case ReduceOp::And:
      return type == ScalarType::Bool ? b_.getInt8(1) : llvm::Constant::getAllOnesValue(t);
    case ReduceOp::Max:
    case ReduceOp::Min:
    case ReduceOp::ArgMax:
    case ReduceOp::ArgMin:
      break;
  }
  bool lowest = wants_largest(op);
  if (is_float(type)) {
    double infinity = std::numeric_limits<double>::infinity();
    return arithmetic_.constant(std::bit_cast<int64_t>(lowest ? -infinity : infinity), type);
  }
  if (type == ScalarType::Bool) return b_.getInt8(lowest ? 0 : 1);
  llvm::APInt edge =
      is_unsigned(type)
          ? (lowest ? llvm::APInt::getMinValue(bits) : llvm::APInt::getMaxValue(bits))
          : (lowest ? llvm::APInt::getSignedMinValue(bits) : llvm::APInt::getSignedMaxValue(bits));
  return llvm::ConstantInt::get(b_.getContext(), edge);
}

llvm::Value* Emitter::spread(llvm::Value* x, llvm::Type* like) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(like);
  return vector ? b_.CreateVectorSplat(vector->getNumElements(), x) : x;
}

/// Of the steps since the sum's last block. Sums over the same loops count together.
llvm::AllocaInst* Emitter::step_counter(int p) {
  llvm::AllocaInst*& own = steps_[static_cast<size_t>(p)];
  for (size_t other = 0; other < steps_.size() && own == nullptr; ++other) {
    const StatementPlan& s = planned(static_cast<int>(other));
    if (s.loop == planned(p).loop && s.reduce_loop == planned(p).reduce_loop) own = steps_[other];
  }
  if (own == nullptr) own = variable(b_.getInt64Ty());
  return own;
}

void Emitter::start_reduction(int p) {
  const StatementPlan& plan = planned(p);
  if (plan.accumulate == Accumulate::Array) {
    array_loop(p, [&] {
      auto [values, places] = array_pointers(p);
      llvm::Type* t = accumulator_type(p, accumulated(p));
      b_.CreateAlignedStore(spread(identity(p), t), values, llvm::Align(8));
      if (finds_place(reduction(p).op))
        b_.CreateAlignedStore(llvm::Constant::getNullValue(shaped(b_.getInt64Ty(), t)), places,
                              llvm::Align(8));
    });
    return;
  }
  if (plan.has_blocks() && plan.is_nested()) b_.CreateStore(i64(0), step_counter(p));
  size_t count = 1;
  if (plan.accumulate == Accumulate::PerLane) count = copies();
  if (plan.accumulate == Accumulate::Lanes && !plan.paired)
    count = static_cast<size_t>(loop(plan_.vector_loop(plan.loop)).unroll);
  llvm::Type *t = accumulator_type(p, stepped(p)), *whole = accumulator_type(p, accumulated(p));
  auto& all = accumulators_[static_cast<size_t>(p)];
  // A reduction of extent 1 starts once per copy; the others have all copies at once.
  size_t first = plan.reduce_loop < 0 ? copy_ : 0, last = plan.reduce_loop < 0 ? copy_ + 1 : count;
  for (size_t c = first; c < last; ++c) {
    if (all.size() <= c) all.resize(c + 1);
    Accumulator& a = all[c];
    if (!a.value) {
      a.value = variable(t);
      if (finds_place(reduction(p).op)) a.place = variable(shaped(b_.getInt64Ty(), t));
      if (plan.has_blocks()) a.blocks = variable(whole);
      if (plan.levels == Levels::Cascade) a.lost = variable(t);
      if (keeps_nan_apart(p)) a.nan = variable(t);
    }
    llvm::Value* start = plan.widens ? llvm::Constant::getNullValue(t) : spread(identity(p), t);
    b_.CreateStore(start, a.value);
    if (a.place) b_.CreateStore(llvm::Constant::getNullValue(a.place->getAllocatedType()), a.place);
    if (a.blocks) b_.CreateStore(llvm::Constant::getNullValue(whole), a.blocks);
    if (a.lost) b_.CreateStore(start, a.lost);
    if (a.nan) b_.CreateStore(llvm::Constant::getNullValue(t), a.nan);
  }
}

/// Then each step of the chain is one instruction of the machine.
bool Emitter::keeps_nan_apart(int p) const {
  return is_extreme(reduction(p).op) && is_float(accumulated(p)) &&
         planned(p).accumulate != Accumulate::Array;
}

llvm::Value* Emitter::step(int p, ScalarType type, llvm::Value* so_far, llvm::Value* x) {
  ReduceOp op = reduction(p).op;
  auto node = [&](ir::Op op) { return arithmetic_.node(op, type, type, so_far, x, nullptr); };
  bool truth = type == ScalarType::Bool;
  switch (op) {
    case ReduceOp::Sum:
      return truth ? b_.CreateOr(so_far, x) : node(ir::Op::Add);
    case ReduceOp::Prod:
      return truth ? b_.CreateAnd(so_far, x) : node(ir::Op::Mul);
    case ReduceOp::And:
      return b_.CreateAnd(so_far, x);
    case ReduceOp::Or:
      return b_.CreateOr(so_far, x);
    case ReduceOp::Max:
    case ReduceOp::Min:
    case ReduceOp::ArgMax:
    case ReduceOp::ArgMin:
      break;
  }
  if (keeps_nan_apart(p)) {
    llvm::Value* wins = wants_largest(op) ? arithmetic_.greater(type, x, so_far)
                                          : arithmetic_.less(type, x, so_far);
    return b_.CreateSelect(wins, x, so_far);
  }
  // A NaN that came first stays: the comparison with it is false. A new one is taken by extreme().
  return arithmetic_.extreme(wants_largest(op), type, x, so_far);
}

/// Does x replace the best so far, their places apart? NaN beats everything but NaN.
llvm::Value* Emitter::better(int p, llvm::Value* x, llvm::Value* best) {
  ScalarType type = accumulated(p);
  llvm::Value* wins = wants_largest(reduction(p).op) ? arithmetic_.greater(type, x, best)
                                                     : arithmetic_.less(type, x, best);
  if (!is_float(type)) return wins;
  return b_.CreateOr(wins,
                     b_.CreateAnd(arithmetic_.is_nan(x), b_.CreateNot(arithmetic_.is_nan(best))));
}

/// Row-major index over the reduced axes, in the statement's order.
llvm::Value* Emitter::place_of(int p, bool in_vector) {
  const ir::Placed& placed = kernel_.placed[static_cast<size_t>(p)];
  llvm::Value* place = in_vector ? splat(i64(0)) : i64(0);
  for (size_t a = 0; a < placed.axis_var.size(); ++a) {
    int var = placed.axis_var[a];
    if (!reduction(p).axes[a] || layout_.extent[static_cast<size_t>(var)] < 0) continue;
    llvm::Value* size = extent(var);
    llvm::Value* index = loop_index(var, in_vector);
    place = b_.CreateAdd(b_.CreateMul(place, in_vector ? splat(size) : size), index);
  }
  return place;
}

llvm::Value* Emitter::loop_index(int var, bool in_vector) {
  for (size_t f = frames_.size(); f-- > 0;) {
    const LoopPlan& l = loop(frames_[f].loop);
    if (l.var != var) continue;
    if (l.vector) return b_.CreateAdd(splat(lanes_[copy_].index), memory_.iota(b_.getInt64Ty()));
    return in_vector ? splat(frames_[f].index) : frames_[f].index;
  }
  throw std::runtime_error("graft: a reduced axis has no loop");
}

void Emitter::accumulate(int p) {
  const StatementPlan& plan = planned(p);
  ScalarType type = stepped(p);
  bool vectors = plan.accumulate != Accumulate::Scalar && in_lanes();
  llvm::Value* input = vectors ? wide(plan.input) : get(plan.input);
  llvm::Value* x = to_memory(arithmetic_.cast(input, value(plan.input).type, type), type);
  if (copies() > 1 && plan.paired) {
    x = in_pairs(p, x);
    if (!x) return;
  }
  llvm::Value *values = nullptr, *places = nullptr;
  llvm::MaybeAlign align;
  if (plan.accumulate == Accumulate::Array) {
    std::tie(values, places) = array_pointers(p);
    align = llvm::Align(8);
  } else {
    Accumulator& a = accumulators_[static_cast<size_t>(p)][plan.paired ? 0 : copy_];
    values = a.value;
    places = a.place;
  }
  llvm::Value* so_far = b_.CreateAlignedLoad(x->getType(), values, align);
  // Lanes of the array beyond the end accumulate what nobody reads.
  llvm::Value* on = plan.accumulate == Accumulate::Lanes ? mask() : nullptr;
  if (!finds_place(reduction(p).op)) {
    llvm::Value* next = nullptr;
    if (is_fused_sum(plan_, reduction(p), p, machine_.target)) {
      const auto factor = [&](size_t k) {
        const int v = value(plan.input).in[k];
        return vectors ? wide(v) : get(v);
      };
      next =
          b_.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {factor(0), factor(1), so_far});
    } else {
      next = step(p, type, so_far, x);
    }
    b_.CreateAlignedStore(on ? b_.CreateSelect(on, next, so_far) : next, values, align);
    if (keeps_nan_apart(p)) {
      llvm::AllocaInst* nan = accumulators_[static_cast<size_t>(p)][copy_].nan;
      llvm::Value* is_nan = arithmetic_.is_nan(x);
      if (on) is_nan = b_.CreateAnd(is_nan, on);
      b_.CreateStore(b_.CreateSelect(is_nan, x, b_.CreateLoad(x->getType(), nan)), nan);
    }
    return;
  }
  llvm::Type* word = shaped(b_.getInt64Ty(), x->getType());
  Best best = {so_far, b_.CreateAlignedLoad(word, places, align)}, now = {x, place_of(p, vectors)};
  llvm::Value* wins = plan.in_order ? better(p, x, so_far) : replaces(p, best, now);
  if (on) wins = b_.CreateAnd(wins, on);
  b_.CreateAlignedStore(b_.CreateSelect(wins, now.first, best.first), values, align);
  b_.CreateAlignedStore(b_.CreateSelect(wins, now.second, best.second), places, align);
}

/// Adds a vector to those of its step that came before, as a counter of its copies carries; gives
/// their sum when it is the last one, null before.
llvm::Value* Emitter::in_pairs(int p, llvm::Value* x) {
  std::vector<llvm::Value*>& sums = pairs_[p];
  for (size_t carries = copy_; (carries & 1) != 0; carries >>= 1) {
    x = b_.CreateFAdd(sums.back(), x);
    sums.pop_back();
  }
  if (copy_ + 1 == copies()) return x;  // a power of two: nothing is left to carry
  sums.push_back(x);
  return nullptr;
}

/// After so many steps of the innermost loop: at once, unless short loops follow one another.
void Emitter::flush_after(const std::vector<int>& sums, llvm::Value* steps) {
  std::set<llvm::AllocaInst*> counted;
  for (int p : sums) {
    llvm::AllocaInst* so_far = steps_[static_cast<size_t>(p)];
    if (so_far == nullptr) flush_block(p);
    if (so_far == nullptr || !counted.insert(so_far).second) continue;
    llvm::Value* all = b_.CreateAdd(b_.CreateLoad(b_.getInt64Ty(), so_far), steps);
    llvm::Value* enough = b_.CreateICmpSGE(all, i64(kBlockSteps));
    b_.CreateStore(b_.CreateSelect(enough, i64(0), all), so_far);
    Flow(b_, fn_).only_if(enough, [&] {
      for (int together : sums)
        if (steps_[static_cast<size_t>(together)] == so_far) flush_block(together);
    });
  }
}

/// Adds a block's sum, widened, to the sum of blocks; in a cascade also what that addition loses to
/// what such additions lost (Knuth's two-sum).
void Emitter::flush_block(int p) {
  for (Accumulator& a : accumulators_[static_cast<size_t>(p)]) {
    if (!a.blocks) continue;
    llvm::Type* t = a.blocks->getAllocatedType();
    llvm::Value *x = b_.CreateLoad(t, a.blocks), *y = block_of(p, a);
    llvm::Value* sum = b_.CreateFAdd(x, y);
    b_.CreateStore(llvm::Constant::getNullValue(a.value->getAllocatedType()), a.value);
    if (!a.lost) {
      b_.CreateStore(sum, a.blocks);
      continue;
    }
    llvm::Value* of_y = b_.CreateFSub(sum, x);
    llvm::Value* lost =
        b_.CreateFAdd(b_.CreateFSub(x, b_.CreateFSub(sum, of_y)), b_.CreateFSub(y, of_y));
    b_.CreateStore(sum, a.blocks);
    b_.CreateStore(b_.CreateFAdd(b_.CreateLoad(t, a.lost), lost), a.lost);
  }
}

/// What a block has added up so far, in the type of sums of blocks.
llvm::Value* Emitter::block_of(int p, const Accumulator& a) {
  llvm::Value* x = b_.CreateLoad(a.value->getAllocatedType(), a.value);
  return arithmetic_.cast(x, stepped(p), accumulated(p));
}

}  // namespace graft::codegen
