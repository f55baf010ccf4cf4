#include <algorithm>

#include "codegen/llvm/emitter.h"

namespace graft::codegen {

llvm::Value* Emitter::stride(const Stride& s) {
  switch (s.kind) {
    case StrideKind::Zero:
      return i64(0);
    case StrideKind::One:
      return i64(1);
    case StrideKind::Two:
    case StrideKind::Three:
    case StrideKind::Four:
      return i64(interleave(s));
    case StrideKind::MinusOne:
      return i64(-1);
    case StrideKind::Argument:
      break;
  }
  return integer(s.slot);
}

/// The access's element at the loops' current indices down to `depth`, without the lanes' part.
llvm::Value* Emitter::pointer(int access, int depth) {
  const AffineAccess& affine = layout_.accesses[static_cast<size_t>(access)];
  llvm::Type* element = mem(affine.dtype);
  size_t f = frames_.size();
  while (f > 0 && frames_[f - 1].depth >= depth) {
    --f;
    if (frames_[f].depth == depth)
      for (const auto& [known, made] : frames_[f].pointers)
        if (known == access) return made;
  }
  llvm::Value* made;
  if (depth == 0) {
    if (affine.pointer >= 0) {
      made = argument(pointers_, affine.pointer, b_.getPtrTy());
    } else {
      At at(*this, 0);
      made = b_.CreateGEP(b_.getInt8Ty(), scratch_, integer(affine.scratch));
    }
  } else {
    made = pointer(access, depth - 1);
    const LoopPlan& l = loop(frames_[f].loop);
    const Shape& shape = layout_.shapes[static_cast<size_t>(affine.shape)];
    if (l.var < 0) {
      if (offsets_[static_cast<size_t>(affine.shape)]) {
        At at(*this, depth);
        made = b_.CreateGEP(element, made, range_offset(affine.shape));
      }
    } else if (const Stride& s = shape.strides[static_cast<size_t>(l.var)];
               !l.vector && s.kind != StrideKind::Zero) {
      At at(*this, depth);
      made = b_.CreateGEP(element, made, b_.CreateMul(frames_[f].index, stride(s)));
    }
  }
  frame_at(depth).pointers.emplace_back(access, made);
  return made;
}

llvm::Value* Emitter::uniform_pointer(int access,
                                      const std::vector<std::pair<int, Stride>>& indirect) {
  llvm::Value* base = pointer(access, at_depth_);
  llvm::Type* element = mem(layout_.accesses[static_cast<size_t>(access)].dtype);
  for (const auto& [index, s] : indirect)
    if (!value(index).varying && s.kind != StrideKind::Zero)
      base = b_.CreateGEP(element, base, b_.CreateMul(get(index), stride(s)));
  return base;
}

/// Where the vector's first lane is, of lanes that lie side by side.
llvm::Value* Emitter::lane_pointer(int access, llvm::Value* base) {
  const AffineAccess& affine = layout_.accesses[static_cast<size_t>(access)];
  if (affine.vectors != 0)
    return b_.CreateGEP(mem(affine.dtype), base, i64(static_cast<int64_t>(copy_) * machine_.lanes));
  return b_.CreateGEP(mem(affine.dtype), base, lanes_[copy_].index);
}

/// Along the lanes of the vector loop that is open.
Stride Emitter::lane_stride(int access) const {
  if (lanes_.empty()) return {};
  const Shape& shape =
      layout_.shapes[static_cast<size_t>(layout_.accesses[static_cast<size_t>(access)].shape)];
  return shape.strides[static_cast<size_t>(loop(lanes_loop_).var)];
}

/// Elements from the uniform pointer to each lane's element.
llvm::Value* Emitter::lane_offsets(int access,
                                   const std::vector<std::pair<int, Stride>>& indirect) {
  llvm::Value* sum = nullptr;
  auto add = [&](llvm::Value* part) { sum = sum ? b_.CreateAdd(sum, part) : part; };
  if (Stride s = lane_stride(access); s.kind != StrideKind::Zero) {
    llvm::Value* index = b_.CreateAdd(splat(lanes_[copy_].index), memory_.iota(b_.getInt64Ty()));
    add(s.kind == StrideKind::One ? index : b_.CreateMul(index, splat(stride(s))));
  }
  for (const auto& [index, s] : indirect) {
    if (!value(index).varying || s.kind == StrideKind::Zero) continue;
    add(s.kind == StrideKind::One ? get(index) : b_.CreateMul(get(index), splat(stride(s))));
  }
  return sum;
}

/// Does an index differ from lane to lane?
bool Emitter::varies(const std::vector<std::pair<int, Stride>>& indirect) const {
  return std::any_of(indirect.begin(), indirect.end(), [&](const auto& part) {
    return value(part.first).varying && part.second.kind != StrideKind::Zero;
  });
}

/// Asks for what lies at `place` some iterations of a loop later, into the second cache: the
/// first one may be full with this iteration's. In the last iterations, and for lanes that are off,
/// that is behind the end, which the instruction permits.
void Emitter::fetch_ahead(const AffineAccess& affine, llvm::Value* place) {
  constexpr int64_t kLine = 64;  // bytes
  const auto size = static_cast<int64_t>(c10::elementSize(affine.dtype));
  const int64_t vector = machine_.lanes * size;
  if (static_cast<int64_t>(copy_) * vector % kLine != 0) return;  // one of a line's vectors asks
  const Shape& shape = layout_.shapes[static_cast<size_t>(affine.shape)];
  llvm::Value* far =
      b_.CreateMul(stride(shape.strides[static_cast<size_t>(affine.ahead_var)]), i64(affine.ahead));
  constexpr uint32_t kRead = 0, kSecondCache = 2, kData = 1;
  for (int64_t line = 0; line < std::max(vector, kLine); line += kLine) {
    llvm::Value* at = line == 0 ? far : b_.CreateAdd(far, i64(line / size));
    b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {b_.getPtrTy()},
                       {b_.CreateGEP(mem(affine.dtype), place, at), b_.getInt32(kRead),
                        b_.getInt32(kSecondCache), b_.getInt32(kData)});
  }
}

llvm::Value* Emitter::load(const PlanValue& v) {
  const AffineAccess& affine = layout_.accesses[static_cast<size_t>(v.access)];
  llvm::Type* element = mem(affine.dtype);
  llvm::Value* base = uniform_pointer(v.access, v.indirect);
  llvm::Align align(c10::elementSize(affine.dtype));
  llvm::Value* on = v.varying ? mask() : nullptr;
  if (!v.varying) {
    return to_register(b_.CreateAlignedLoad(element, base, align), affine.dtype);
  }
  if (words_) return load_word_half(v, base);
  if (is_interleaved(v)) return to_register(load_interleaved(v), affine.dtype);
  Stride s = lane_stride(v.access);
  llvm::Value* x;
  if (varies(v.indirect)) {
    llvm::Value* offsets = lane_offsets(v.access, v.indirect);
    const bool alone = s.kind == StrideKind::Zero;
    if (alone && memory_.has_tables(element, v.table))
      x = memory_.pick(base, offsets, element, v.table);
    else if (alone && v.near)
      x = memory_.gather_near(base, offsets, element, on);
    else
      x = memory_.gather(base, offsets, element, on);
  } else if (s.kind == StrideKind::One) {
    llvm::Value* place = lane_pointer(v.access, base);
    if (affine.ahead > 0) fetch_ahead(affine, place);
    x = memory_.load(place, element, affine.vectors != 0 ? nullptr : on);
  } else if (s.kind == StrideKind::MinusOne) {
    x = memory_.load_reversed(b_.CreateGEP(element, base, b_.CreateNeg(lanes_[copy_].index)),
                              element, on);
  } else {
    x = memory_.gather(base, lane_offsets(v.access, v.indirect), element, on);
  }
  return to_register(x, affine.dtype);
}

void Emitter::store(int p) {
  const int v = planned(p).value;
  if (!planned(p).stores)
    get(v);  // here, as what it loads may change
  else if (is_joined(p))
    store_joined(p);
  else
    store_alone(p);
}

void Emitter::store_alone(int p) {
  const StatementPlan& plan = planned(p);
  const int v = plan.value;
  llvm::Value* on = mask();
  int access = laid_out(p).store.access;
  const AffineAccess& affine = layout_.accesses[static_cast<size_t>(access)];
  llvm::Type* element = mem(affine.dtype);
  Stride s = lane_stride(access);
  if (words_) return store_word_half(p, uniform_pointer(access, plan.store_indirect));
  bool scattered = varies(plan.store_indirect);
  if (s.kind == StrideKind::Zero && !scattered) {
    // What a tile shares is one value, though reduced in every lane.
    llvm::Value* one = get(v);
    if (value(v).varying) one = b_.CreateExtractElement(one, uint64_t{0});
    llvm::Value* x = to_memory(one, affine.dtype);
    llvm::Value* place = uniform_pointer(access, plan.store_indirect);
    b_.CreateAlignedStore(x, place, llvm::Align(c10::elementSize(affine.dtype)));
    return;
  }
  llvm::Value* x = to_memory(wide(v), affine.dtype);
  llvm::Value* base = uniform_pointer(access, plan.store_indirect);
  if (scattered || interleave(s) > 0 || s.kind == StrideKind::Argument)
    memory_.scatter(x, base, lane_offsets(access, plan.store_indirect), on);
  else if (s.kind == StrideKind::One && laid_out(p).streamed && !on)
    memory_.stream(x, b_.CreateGEP(element, base, lanes_[copy_].index));
  else if (s.kind == StrideKind::One)
    memory_.store(x, lane_pointer(access, base), affine.vectors != 0 ? nullptr : on);
  else
    memory_.store_reversed(x, b_.CreateGEP(element, base, b_.CreateNeg(lanes_[copy_].index)), on);
}

llvm::Value* Emitter::to_register(llvm::Value* x, ScalarType type) {
  if (type != ScalarType::Bool) return x;
  return b_.CreateICmpNE(x, llvm::Constant::getNullValue(x->getType()));
}

llvm::Value* Emitter::to_memory(llvm::Value* x, ScalarType type) {
  if (type != ScalarType::Bool) return x;
  return b_.CreateZExt(x, shaped(b_.getInt8Ty(), x->getType()));
}

}  // namespace graft::codegen
