// Operands of a matrix product: where their numbers are, loading those, and asking whether all of
// many are zero, or finite.
#pragma once

#include <llvm/IR/IntrinsicsX86.h>

#include "codegen/llvm/emitter.h"
#include "codegen/llvm/flow.h"

namespace graft::codegen {

class ProductOperands : protected Flow {
 protected:
  static constexpr int kVectors = 2;  ///< of columns
  /// Of numbers that are asked whether all are zero, or finite.
  static constexpr int64_t kLinesAtOnce = 8;

  struct Operand {
    llvm::Value *base, *down, *along;  ///< strides in elements: of the first axis, of the second
    llvm::Value* across = nullptr;     ///< and from panel to panel
    ScalarType dtype = ScalarType::Float;
    ScalarType type = ScalarType::Float;  ///< rounded to that before it is multiplied
  };

  ProductOperands(Builder& b, const Machine& machine, VectorMemory& memory, Arithmetic& arithmetic,
                  llvm::Function* fn)
      : Flow(b, fn), machine_(machine), memory_(memory), arithmetic_(arithmetic) {}

  llvm::Type* number() { return b_.getFloatTy(); }
  llvm::Type* vector() {
    return llvm::FixedVectorType::get(number(), static_cast<unsigned>(machine_.lanes));
  }

  llvm::Value* place(const Operand& x, llvm::Value* down, llvm::Value* along) {
    llvm::Value* offset = b_.CreateAdd(b_.CreateMul(down, x.down), b_.CreateMul(along, x.along));
    if (panel_ != nullptr && x.across != nullptr)
      offset = b_.CreateAdd(offset, b_.CreateMul(panel_, x.across));
    return step(x, x.base, offset);
  }
  llvm::Type* element(const Operand& x) { return memory_type(b_.getContext(), x.dtype); }
  llvm::Value* step(const Operand& x, llvm::Value* from, llvm::Value* elements) {
    return b_.CreateGEP(element(x), from, elements);
  }
  /// Vector `v` from there on, as it lies there; in fp32.
  llvm::Value* raw(const Operand& x, llvm::Value* from, int v, llvm::Value* mask) {
    return memory_.load(at(element(x), from, v), element(x), mask);
  }
  llvm::Value* load(const Operand& x, llvm::Value* from, int v, llvm::Value* mask) {
    return widened(x, raw(x, from, v, mask));
  }
  llvm::Value* widened(const Operand& x, llvm::Value* value) {
    return arithmetic_.cast(arithmetic_.cast(value, x.dtype, x.type), x.type, ScalarType::Float);
  }
  /// In 16 bits, for the instruction that takes two terms, by its own rounding.
  llvm::Value* short_load(const Operand& x, llvm::Value* from, int v, llvm::Value* mask) {
    llvm::Value* value = raw(x, from, v, mask);
    if (x.dtype == ScalarType::BFloat16) return value;
    llvm::Value* made =
        b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_cvtneps2bf16_512, {}, {value});
    return b_.CreateBitCast(made, value->getType()->getWithNewType(b_.getInt16Ty()));
  }

  llvm::Value* at(llvm::Type* element, llvm::Value* base, int v) {
    return b_.CreateConstInBoundsGEP1_64(
        element, base, static_cast<uint64_t>(v) * static_cast<uint64_t>(machine_.lanes));
  }
  enum class Bits : uint8_t { Zero, Finite };
  /// Are so many of the operand's numbers side by side, and those `stride` after them, and so on,
  /// all so?
  llvm::Value* all(Bits what, const Operand& of, llvm::Value* from, llvm::Value* lines,
                   llvm::Value* stride, llvm::Value* count, int vectors = kVectors) {
    llvm::Value* last = b_.CreateSub(lines, i64(1));
    return all_of(lines, kLinesAtOnce, [&](llvm::Value* line) {
      return all_of(count, int64_t{vectors} * machine_.lanes, [&](llvm::Value* place) {
        llvm::Value* most = nullptr;
        for (int v = 0; v < vectors; ++v) {
          llvm::Value* part = mask(b_.CreateSub(count, place), v);
          for (int64_t k = 0; k < kLinesAtOnce; ++k) {
            llvm::Value* down = b_.CreateMul(smaller(b_.CreateAdd(line, i64(k)), last), stride);
            llvm::Value* x = bits(of, step(of, from, b_.CreateAdd(down, place)), v, part);
            most = !most                ? x
                   : what == Bits::Zero ? b_.CreateOr(most, x)
                                        : b_.CreateBinaryIntrinsic(llvm::Intrinsic::umax, most, x);
          }
        }
        llvm::Value* bound =
            llvm::ConstantInt::get(most->getType(), what == Bits::Zero ? 1 : 0x7f800000);
        return b_.CreateNot(b_.CreateOrReduce(b_.CreateICmpUGE(most, bound)));
      });
    });
  }
  /// Of vector `v` from there on, without signs.
  llvm::Value* bits(const Operand& of, llvm::Value* from, int v, llvm::Value* mask) {
    llvm::Value* x = load(of, from, v, mask);
    llvm::Type* words = x->getType()->getWithNewBitWidth(32);
    return b_.CreateAnd(b_.CreateBitCast(x, words), llvm::ConstantInt::get(words, 0x7fffffff));
  }

  /// Of the lanes of vector `v` that are among so many columns.
  llvm::Value* mask(llvm::Value* left_over, int v) {
    llvm::Type* word = b_.getInt32Ty();
    llvm::Value* count = b_.CreateTrunc(left_over, word);
    llvm::Value* lane =
        b_.CreateAdd(memory_.iota(word),
                     b_.CreateVectorSplat(static_cast<unsigned>(machine_.lanes),
                                          b_.getInt32(static_cast<uint32_t>(v * machine_.lanes))));
    return b_.CreateICmpSLT(lane,
                            b_.CreateVectorSplat(static_cast<unsigned>(machine_.lanes), count));
  }

  const Machine& machine_;
  VectorMemory& memory_;
  Arithmetic& arithmetic_;
  llvm::Value* panel_ = nullptr;  ///< at hand; null: there is one
};

}  // namespace graft::codegen
