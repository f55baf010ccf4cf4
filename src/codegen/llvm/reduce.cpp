#include <bit>
#include <limits>
#include <stdexcept>

#include "codegen/llvm/emitter.h"

namespace graft::codegen {

using ir::ReduceOp;

namespace {

bool finds_place(ReduceOp op) {
  return op == ReduceOp::ArgMax || op == ReduceOp::ArgMin;
}
bool wants_largest(ReduceOp op) {
  return op == ReduceOp::Max || op == ReduceOp::ArgMax;
}

}  // namespace

/// The type that accumulators have: of what is compared, for places; Float for the narrow floating
/// types, which is exact.
ScalarType Emitter::accumulated(int p) const {
  ScalarType type = finds_place(reduction(p).op) ? value(planned(p).input).type : reduction(p).type;
  return type == ScalarType::BFloat16 || type == ScalarType::Half ? ScalarType::Float : type;
}

/// Of one accumulator. Bool is kept as bytes, which vectors of every machine hold well.
llvm::Type* Emitter::accumulator_type(int p) {
  llvm::Type* t = mem(accumulated(p));
  Accumulate where = planned(p).accumulate;
  return where == Accumulate::Scalar || (where == Accumulate::Array && !in_lanes()) ? t
                                                                                    : lanes_of(t);
}

llvm::Constant* Emitter::identity(int p) {
  ReduceOp op = reduction(p).op;
  ScalarType type = accumulated(p);
  llvm::Type* t = mem(type);
  unsigned bits = t->getScalarSizeInBits();
  bool is_unsigned = type == ScalarType::Byte || type == ScalarType::Bool;
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Or:
      return llvm::Constant::getNullValue(t);
    case ReduceOp::Prod:
      return arithmetic_.constant(ir::is_float(type) ? std::bit_cast<int64_t>(1.0) : 1, type);
    case ReduceOp::And:
      return type == ScalarType::Bool ? b_.getInt8(1) : llvm::Constant::getAllOnesValue(t);
    default:
      break;
  }
  bool lowest = wants_largest(op);
  if (ir::is_float(type)) {
    double infinity = std::numeric_limits<double>::infinity();
    return arithmetic_.constant(std::bit_cast<int64_t>(lowest ? -infinity : infinity), type);
  }
  if (type == ScalarType::Bool) return b_.getInt8(lowest ? 0 : 1);
  llvm::APInt edge =
      is_unsigned
          ? (lowest ? llvm::APInt::getMinValue(bits) : llvm::APInt::getMaxValue(bits))
          : (lowest ? llvm::APInt::getSignedMinValue(bits) : llvm::APInt::getSignedMaxValue(bits));
  return llvm::ConstantInt::get(b_.getContext(), edge);
}

llvm::Value* Emitter::spread(llvm::Value* x, llvm::Type* like) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(like);
  return vector ? b_.CreateVectorSplat(vector->getNumElements(), x) : x;
}

void Emitter::start_reduction(int p) {
  const StatementPlan& plan = planned(p);
  if (plan.accumulate == Accumulate::Array) {
    array_loop(p, [&] {
      auto [values, places] = array_pointers(p);
      llvm::Type* t = accumulator_type(p);
      b_.CreateAlignedStore(spread(identity(p), t), values, llvm::Align(8));
      if (finds_place(reduction(p).op))
        b_.CreateAlignedStore(llvm::Constant::getNullValue(shaped(b_.getInt64Ty(), t)), places,
                              llvm::Align(8));
    });
    return;
  }
  size_t count = 1;
  if (plan.accumulate == Accumulate::PerLane) count = copies();
  if (plan.accumulate == Accumulate::Lanes)
    count = static_cast<size_t>(loop(plan_.vector_loop(plan.loop)).unroll);
  llvm::Type* t = accumulator_type(p);
  auto& all = accumulators_[static_cast<size_t>(p)];
  // A reduction of extent 1 starts once a copy; the others have all copies at once.
  size_t first = plan.reduce_loop < 0 ? copy_ : 0, last = plan.reduce_loop < 0 ? copy_ + 1 : count;
  for (size_t c = first; c < last; ++c) {
    if (all.size() <= c) all.resize(c + 1);
    Accumulator& a = all[c];
    if (!a.value) {
      a.value = variable(t);
      if (finds_place(reduction(p).op)) a.place = variable(shaped(b_.getInt64Ty(), t));
      if (plan.cascade) a.blocks = variable(t), a.lost = variable(t);
      if (keeps_nan_apart(p)) a.nan = variable(t);
    }
    llvm::Value* start = spread(identity(p), t);
    b_.CreateStore(start, a.value);
    if (a.place) b_.CreateStore(llvm::Constant::getNullValue(a.place->getAllocatedType()), a.place);
    if (a.blocks) b_.CreateStore(start, a.blocks), b_.CreateStore(start, a.lost);
    if (a.nan) b_.CreateStore(llvm::Constant::getNullValue(t), a.nan);
  }
}

/// Then each step of the chain is one instruction of the machine.
bool Emitter::keeps_nan_apart(int p) const {
  ReduceOp op = reduction(p).op;
  return (op == ReduceOp::Max || op == ReduceOp::Min) && ir::is_float(accumulated(p)) &&
         planned(p).accumulate != Accumulate::Array;
}

llvm::Value* Emitter::step(int p, llvm::Value* so_far, llvm::Value* x) {
  ReduceOp op = reduction(p).op;
  ScalarType type = accumulated(p);
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
    default:
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
  if (!ir::is_float(type)) return wins;
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

/// Do places come in increasing order, the loops being nested as the axes are?
bool Emitter::in_order(int p) const {
  const ir::Placed& placed = kernel_.placed[static_cast<size_t>(p)];
  int depth = 0;
  for (size_t a = 0; a < placed.axis_var.size(); ++a) {
    if (!reduction(p).axes[a]) continue;
    for (int l = planned(p).loop; loop(l).var >= 0; l = loop(l).parent) {
      if (loop(l).var != placed.axis_var[a]) continue;
      if (loop(l).depth < depth) return false;
      depth = loop(l).depth;
    }
  }
  return true;
}

void Emitter::accumulate(int p) {
  const StatementPlan& plan = planned(p);
  ScalarType type = accumulated(p);
  bool vectors = plan.accumulate != Accumulate::Scalar && in_lanes();
  llvm::Value* input = vectors ? wide(plan.input) : get(plan.input);
  llvm::Value* x = to_memory(arithmetic_.cast(input, value(plan.input).type, type), type);
  llvm::Value *values = nullptr, *places = nullptr;
  llvm::MaybeAlign align;
  if (plan.accumulate == Accumulate::Array) {
    std::tie(values, places) = array_pointers(p);
    align = llvm::Align(8);
  } else {
    Accumulator& a = accumulators_[static_cast<size_t>(p)][copy_];
    values = a.value;
    places = a.place;
  }
  llvm::Value* so_far = b_.CreateAlignedLoad(x->getType(), values, align);
  // Lanes of the array beyond the end accumulate what nobody reads.
  llvm::Value* on = plan.accumulate == Accumulate::Lanes ? mask() : nullptr;
  if (!finds_place(reduction(p).op)) {
    llvm::Value* next = step(p, so_far, x);
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
  llvm::Value* wins = in_order(p) ? better(p, x, so_far) : replaces(p, best, now);
  if (on) wins = b_.CreateAnd(wins, on);
  b_.CreateAlignedStore(b_.CreateSelect(wins, now.first, best.first), values, align);
  b_.CreateAlignedStore(b_.CreateSelect(wins, now.second, best.second), places, align);
}

/// Adds a block's sum to the sum of blocks, and what that addition loses to what such additions
/// lost (Knuth's two-sum).
void Emitter::flush_block(int p) {
  for (Accumulator& a : accumulators_[static_cast<size_t>(p)]) {
    if (!a.blocks) continue;
    llvm::Type* t = a.value->getAllocatedType();
    llvm::Value *x = b_.CreateLoad(t, a.blocks), *y = b_.CreateLoad(t, a.value);
    llvm::Value* sum = b_.CreateFAdd(x, y);
    llvm::Value* of_y = b_.CreateFSub(sum, x);
    llvm::Value* lost =
        b_.CreateFAdd(b_.CreateFSub(x, b_.CreateFSub(sum, of_y)), b_.CreateFSub(y, of_y));
    b_.CreateStore(sum, a.blocks);
    b_.CreateStore(b_.CreateFAdd(b_.CreateLoad(t, a.lost), lost), a.lost);
    b_.CreateStore(llvm::Constant::getNullValue(t), a.value);
  }
}

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
    llvm::Type* t = a.value->getAllocatedType();
    llvm::Value* x = b_.CreateLoad(t, a.value);
    if (a.blocks) {
      // Of infinities nothing is lost that counts.
      llvm::Value* lost = b_.CreateLoad(t, a.lost);
      lost = b_.CreateSelect(arithmetic_.is_nan(lost), llvm::Constant::getNullValue(t), lost);
      x = b_.CreateFAdd(b_.CreateLoad(t, a.blocks), b_.CreateFAdd(x, lost));
    }
    return {x, finds ? b_.CreateLoad(a.place->getAllocatedType(), a.place) : nullptr};
  };
  auto join = [&](Best a, Best b) -> Best {
    return finds ? best_of(p, a, b) : Best{step(p, a.first, b.first), nullptr};
  };
  if (plan.accumulate == Accumulate::Array) {
    auto [values, places] = array_pointers(p);
    llvm::Type* t = accumulator_type(p);
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
    store_result(p);
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
    counted(l, i64(0), extent(loop(l).var), i64(1), true, [&](llvm::Value*) { each(); });
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
