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

}  // namespace graft::codegen
