#include "codegen/llvm/memory.h"

#include <llvm/IR/IntrinsicsX86.h>

namespace graft::codegen {

bool VectorMemory::masks(llvm::Type* element) const {
  return machine_.target.avx512() ||
         (machine_.target.avx2() && element->getScalarSizeInBits() >= 32);
}

bool VectorMemory::gathers(llvm::Type* element) const {
  return machine_.target.avx512() && element->getScalarSizeInBits() >= 32;
}

llvm::Constant* VectorMemory::iota(llvm::Type* integer) const {
  std::vector<llvm::Constant*> lanes;
  for (int k = 0; k < lanes_; ++k)
    lanes.push_back(llvm::ConstantInt::get(integer, static_cast<uint64_t>(k)));
  return llvm::ConstantVector::get(lanes);
}

llvm::Value* VectorMemory::reverse(llvm::Value* vector) {
  std::vector<int> order;
  for (int k = lanes_; k-- > 0;) order.push_back(k);
  return b_.CreateShuffleVector(vector, order);
}

llvm::Value* VectorMemory::lane_pointer(llvm::Value* pointer, llvm::Value* mask, int k) {
  if (!mask) return pointer;
  return b_.CreateSelect(b_.CreateExtractElement(mask, static_cast<uint64_t>(k)), pointer, spare_);
}

llvm::Value* VectorMemory::load(llvm::Value* base, llvm::Type* element, llvm::Value* mask) {
  llvm::Type* t = vector(element);
  if (!mask) return b_.CreateAlignedLoad(t, base, alignment(element));
  if (masks(element))
    return b_.CreateMaskedLoad(t, base, alignment(element), mask, llvm::Constant::getNullValue(t));
  return gather(base, iota(b_.getInt64Ty()), element, mask);
}

void VectorMemory::store(llvm::Value* value, llvm::Value* base, llvm::Value* mask) {
  llvm::Type* element = value->getType()->getScalarType();
  if (!mask)
    b_.CreateAlignedStore(value, base, alignment(element));
  else if (masks(element))
    b_.CreateMaskedStore(value, base, alignment(element), mask);
  else
    scatter(value, base, iota(b_.getInt64Ty()), mask);
}

void VectorMemory::stream(llvm::Value* value, llvm::Value* base) {
  uint64_t bytes = value->getType()->getPrimitiveSizeInBits() / 8;
  if (bytes < 16) return store(value, base, nullptr);
  auto* made = b_.CreateAlignedStore(value, base, llvm::Align(std::min<uint64_t>(bytes, 64)));
  auto* one = llvm::ConstantAsMetadata::get(b_.getInt32(1));
  made->setMetadata(llvm::LLVMContext::MD_nontemporal, llvm::MDNode::get(b_.getContext(), {one}));
  streams_ = true;
}

void VectorMemory::fence() {
  if (streams_) b_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
}

llvm::Value* VectorMemory::load_reversed(llvm::Value* base, llvm::Type* element,
                                         llvm::Value* mask) {
  llvm::Value* lowest =
      b_.CreateConstInBoundsGEP1_64(element, base, static_cast<uint64_t>(1 - lanes_));
  return reverse(load(lowest, element, mask ? reverse(mask) : nullptr));
}

void VectorMemory::store_reversed(llvm::Value* value, llvm::Value* base, llvm::Value* mask) {
  llvm::Type* element = value->getType()->getScalarType();
  llvm::Value* lowest =
      b_.CreateConstInBoundsGEP1_64(element, base, static_cast<uint64_t>(1 - lanes_));
  store(reverse(value), lowest, mask ? reverse(mask) : nullptr);
}

llvm::Value* VectorMemory::gather(llvm::Value* base, llvm::Value* offsets, llvm::Type* element,
                                  llvm::Value* mask) {
  llvm::Type* t = vector(element);
  if (gathers(element)) {
    llvm::Value* all = mask ? mask : llvm::Constant::getAllOnesValue(vector(b_.getInt1Ty()));
    return b_.CreateMaskedGather(t, b_.CreateGEP(element, base, offsets), alignment(element), all,
                                 llvm::Constant::getNullValue(t));
  }
  llvm::Value* result = llvm::PoisonValue::get(t);
  for (int k = 0; k < lanes_; ++k) {
    auto lane = static_cast<uint64_t>(k);
    llvm::Value* pointer = b_.CreateGEP(element, base, b_.CreateExtractElement(offsets, lane));
    llvm::Value* x =
        b_.CreateAlignedLoad(element, lane_pointer(pointer, mask, k), alignment(element));
    result = b_.CreateInsertElement(result, x, lane);
  }
  return result;
}

llvm::Value* VectorMemory::gather_near(llvm::Value* base, llvm::Value* offsets, llvm::Type* element,
                                       llvm::Value* mask) {
  constexpr int kVectorBits = 512;
  const auto bits = static_cast<int>(element->getScalarSizeInBits());
  if (!gathers(element) || lanes_ * bits != kVectorBits)
    return gather(base, offsets, element, mask);
  const bool floats = element->isFloatingPointTy();
  const llvm::Intrinsic::ID of_bits = bits == 32
                                          ? floats ? llvm::Intrinsic::x86_avx512_mask_gather_dps_512
                                                   : llvm::Intrinsic::x86_avx512_mask_gather_dpi_512
                                      : floats ? llvm::Intrinsic::x86_avx512_mask_gather_dpd_512
                                               : llvm::Intrinsic::x86_avx512_mask_gather_dpq_512;
  llvm::Value* all = mask ? mask : llvm::Constant::getAllOnesValue(vector(b_.getInt1Ty()));
  return b_.CreateIntrinsic(of_bits, {},
                            {llvm::Constant::getNullValue(vector(element)), base,
                             b_.CreateTrunc(offsets, vector(b_.getInt32Ty())), all,
                             b_.getInt32(static_cast<uint32_t>(bits / 8))});
}

bool VectorMemory::has_tables(llvm::Type* element, int entries) const {
  const bool has_lanes = machine_.target.avx512() ? lanes_ == 16
                         : machine_.target.avx2() ? lanes_ == 8
                                                  : false;
  return has_lanes && entries > 0 && entries <= 2 * lanes_ && masks(element) &&
         element->getScalarSizeInBits() <= 32;
}

llvm::Value* VectorMemory::pick(llvm::Value* table, llvm::Value* indices) {
  llvm::Type* words = vector(b_.getInt32Ty());
  const llvm::Intrinsic::ID permute = machine_.target.avx512()
                                          ? llvm::Intrinsic::x86_avx512_permvar_si_512
                                          : llvm::Intrinsic::x86_avx2_permd;
  llvm::Value* picked = b_.CreateIntrinsic(permute, {}, {b_.CreateBitCast(table, words), indices});
  return b_.CreateBitCast(picked, table->getType());
}

llvm::Value* VectorMemory::pick(llvm::Value* base, llvm::Value* indices, llvm::Type* element,
                                int entries) {
  llvm::Type* words = vector(b_.getInt32Ty());
  llvm::Type* bits = vector(b_.getIntNTy(element->getScalarSizeInBits()));
  llvm::Value* index = b_.CreateTrunc(indices, words);
  llvm::Value* picked = nullptr;
  for (int first = 0; first < entries; first += lanes_) {
    std::vector<llvm::Constant*> there;
    for (int k = 0; k < lanes_; ++k) there.push_back(b_.getInt1(first + k < entries));
    llvm::Value* table =
        load(b_.CreateConstInBoundsGEP1_64(element, base, static_cast<uint64_t>(first)), element,
             llvm::ConstantVector::get(there));
    table = b_.CreateZExt(b_.CreateBitCast(table, bits), words);
    llvm::Value* part = pick(table, index);
    picked = picked ? b_.CreateSelect(b_.CreateICmpSGE(index, llvm::ConstantInt::get(words, first)),
                                      part, picked)
                    : part;
  }
  return b_.CreateBitCast(b_.CreateTrunc(picked, bits), vector(element));
}

void VectorMemory::scatter(llvm::Value* value, llvm::Value* base, llvm::Value* offsets,
                           llvm::Value* mask) {
  llvm::Type* element = value->getType()->getScalarType();
  if (gathers(element)) {
    llvm::Value* all = mask ? mask : llvm::Constant::getAllOnesValue(vector(b_.getInt1Ty()));
    b_.CreateMaskedScatter(value, b_.CreateGEP(element, base, offsets), alignment(element), all);
    return;
  }
  for (int k = 0; k < lanes_; ++k) {
    auto lane = static_cast<uint64_t>(k);
    llvm::Value* pointer = b_.CreateGEP(element, base, b_.CreateExtractElement(offsets, lane));
    b_.CreateAlignedStore(b_.CreateExtractElement(value, lane), lane_pointer(pointer, mask, k),
                          alignment(element));
  }
}

/// Two vectors as one.
llvm::Value* VectorMemory::join(llvm::Value* low, llvm::Value* high) {
  std::vector<int> order;
  for (int k = 0; k < 2 * lanes_; ++k) order.push_back(k);
  return b_.CreateShuffleVector(low, high ? high : llvm::PoisonValue::get(low->getType()), order);
}

/// Mask of vector `piece` of a run: an element is on if its lane is on and its part is at most
/// `reach`.
llvm::Value* VectorMemory::piece_mask(llvm::Value* mask, int apart, int reach, int piece) {
  std::vector<int> order;
  for (int k = piece * lanes_; k < (piece + 1) * lanes_; ++k)
    order.push_back(k % apart <= reach ? k / apart : lanes_);
  return b_.CreateShuffleVector(mask, llvm::Constant::getNullValue(mask->getType()), order);
}

VectorMemory::Run VectorMemory::load_run(llvm::Value* base, llvm::Type* element, int apart,
                                         int reach, llvm::Value* mask) {
  Run run;
  run.apart = apart;
  if (!mask && reach == apart - 1) {
    auto count = static_cast<unsigned>(apart * lanes_);
    run.low =
        b_.CreateAlignedLoad(llvm::FixedVectorType::get(element, count), base, alignment(element));
    return run;
  }
  if (!mask) run.repeated = apart - 1 - reach;
  std::vector<llvm::Value*> pieces;
  for (int k = 0; k < apart; ++k) {
    int at = k * lanes_ - (k == apart - 1 ? run.repeated : 0);
    llvm::Value* place = b_.CreateConstInBoundsGEP1_64(element, base, static_cast<uint64_t>(at));
    pieces.push_back(load(place, element, mask ? piece_mask(mask, apart, reach, k) : nullptr));
  }
  if (apart == 2) {
    run.low = pieces[0], run.high = pieces[1];
  } else {
    run.low = join(pieces[0], pieces[1]);
    run.high = join(pieces[2], apart == 4 ? pieces[3] : nullptr);
  }
  return run;
}

llvm::Value* VectorMemory::part(const Run& run, int part) {
  std::vector<int> order;
  for (int k = 0; k < lanes_; ++k) {
    int place = k * run.apart + part;
    order.push_back(place < (run.apart - 1) * lanes_ ? place : place + run.repeated);
  }
  llvm::Value* high = run.high ? run.high : llvm::PoisonValue::get(run.low->getType());
  return b_.CreateShuffleVector(run.low, high, order);
}

void VectorMemory::store_run(const std::vector<llvm::Value*>& parts, llvm::Value* base,
                             llvm::Value* mask) {
  llvm::Type* element = parts[0]->getType()->getScalarType();
  const auto count = static_cast<int>(parts.size());
  llvm::Value *low = parts[0], *high = parts[1];
  if (count > 2) {
    low = join(parts[0], parts[1]);
    high = join(parts[2], count == 4 ? parts[3] : nullptr);
  }
  std::vector<int> order;
  for (int k = 0; k < count * lanes_; ++k) order.push_back(k % count * lanes_ + k / count);
  llvm::Value* run = b_.CreateShuffleVector(low, high, order);
  if (!mask) {
    b_.CreateAlignedStore(run, base, alignment(element));
    return;
  }
  for (int k = 0; k < count; ++k) {
    std::vector<int> piece;
    for (int i = 0; i < lanes_; ++i) piece.push_back(k * lanes_ + i);
    llvm::Value* place =
        b_.CreateConstInBoundsGEP1_64(element, base, static_cast<uint64_t>(k * lanes_));
    store(b_.CreateShuffleVector(run, piece), place, piece_mask(mask, count, count - 1, k));
  }
}

}  // namespace graft::codegen
