#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/TargetParser/Triple.h>

#include "codegen/llvm/arithmetic.h"

namespace graft::codegen {

namespace {

/// How c10 rounds to a floating dtype of 8 bits: in the integer that a float's bits are.
struct ByteFloat {
  unsigned dropped;     ///< bits of the significand
  uint32_t bias;        ///< what the exponent's bias is less than a float's
  uint32_t smallest;    ///< exponent field of the smallest normal number, in a float
  uint32_t to_integer;  ///< exponent field of a float whose spacing is that of the subnormal ones
  uint32_t limit;       ///< a float's bits: from here on it is `beyond`
  uint32_t beyond;      ///< its code: infinity, or NaN where there is none
};

ByteFloat byte_float(ScalarType type) {
  if (type == ScalarType::Float8_e4m3fn) return {20, 120, 121, 141, 1087u << 20, 0x7f};
  return {21, 112, 113, 134, 143u << 23, 0x7c};
}

}  // namespace

/// A wider type's number of the same value. The fence keeps LLVM from comparing the narrow numbers
/// in their place: it would take -0 for less than 0 (InstCombine of LLVM 19, where a select of a
/// widened number and the other operand of its comparison is narrowed), and many machines compare
/// halves one by one.
llvm::Value* Arithmetic::widened(llvm::Value* x, llvm::Type* real) {
  llvm::Value* wide = b_.CreateFPExt(x, real);
  return llvm::isa<llvm::Constant>(wide) ? wide : b_.CreateArithmeticFence(wide, real);
}

llvm::Value* Arithmetic::to_float(llvm::Value* x, ScalarType from) {
  llvm::Type* real = shaped(b_.getFloatTy(), x->getType());
  auto half_to_float = [&](llvm::Value* bits) {
    return widened(b_.CreateBitCast(bits, shaped(b_.getHalfTy(), x->getType())), real);
  };
  if (from == ScalarType::Half) return half_to_float(x);
  if (c10::elementSize(from) == 1) {
    // Both lie in Half: e5m2 is its upper byte, e4m3fn has an exponent that is 8 less.
    llvm::Type* half = shaped(b_.getInt16Ty(), x->getType());
    auto k = [&](uint64_t value) { return llvm::ConstantInt::get(half, value); };
    llvm::Value* upper = b_.CreateShl(b_.CreateZExt(x, half), 8);
    if (from == ScalarType::Float8_e5m2) return half_to_float(upper);
    llvm::Value* size = b_.CreateAnd(upper, k(0x7f00));
    llvm::Value* sign = b_.CreateAnd(upper, k(0x8000));
    llvm::Value* number = b_.CreateFMul(half_to_float(b_.CreateOr(sign, b_.CreateLShr(size, 1))),
                                        this->number(real, 0x1p8));
    return b_.CreateSelect(b_.CreateICmpEQ(size, k(0x7f00)), llvm::ConstantFP::getNaN(real),
                           number);
  }
  if (auto found = rounded_.find(x); found != rounded_.end()) return found->second;
  llvm::Type* word = shaped(b_.getInt32Ty(), x->getType());
  return mark_short_nan(b_.CreateBitCast(b_.CreateShl(b_.CreateZExt(x, word), 16), real));
}

/// c10's rounding, in integers: the machine's own instruction flushes denormals. Adding up to
/// 0x8000 leaves a NaN that has nothing in its low half a NaN; of others the low half has to go
/// first.
llvm::Value* Arithmetic::float_to_bfloat16(llvm::Value* x) {
  llvm::Type* word = shaped(b_.getInt32Ty(), x->getType());
  llvm::Value* bits = b_.CreateBitCast(x, word);
  auto k = [&](uint64_t value) { return llvm::ConstantInt::get(word, value); };
  llvm::Value* odd = b_.CreateICmpNE(b_.CreateAnd(bits, k(0x10000)), k(0));
  llvm::Value* sum = b_.CreateAdd(bits, b_.CreateSelect(odd, k(0x8000), k(0x7fff)));
  if (!has_short_nan(x)) sum = b_.CreateSelect(is_nan(x), b_.CreateOr(bits, k(0x400000)), sum);
  return narrowed(b_.CreateBitCast(b_.CreateAnd(sum, k(kBFloat16Bits)), x->getType()));
}

/// What computing goes on with is `kept`: no detour through 16 bits.
llvm::Value* Arithmetic::narrowed(llvm::Value* kept) {
  llvm::Type* word = shaped(b_.getInt32Ty(), kept->getType());
  llvm::Value* upper = b_.CreateLShr(b_.CreateBitCast(kept, word), 16);
  llvm::Value* made = b_.CreateTrunc(upper, shaped(b_.getInt16Ty(), kept->getType()));
  rounded_[made] = mark_short_nan(kept);
  return made;
}

llvm::Value* Arithmetic::float_to_byte(llvm::Value* x, ScalarType to) {
  const ByteFloat f = byte_float(to);
  llvm::Type* word = shaped(b_.getInt32Ty(), x->getType());
  auto k = [&](uint64_t value) { return llvm::ConstantInt::get(word, value); };
  llvm::Value* bits = b_.CreateBitCast(x, word);
  llvm::Value* size = b_.CreateAnd(bits, k(0x7fffffff));
  // Half of what is dropped, less one where the digit before it is even.
  llvm::Value* odd = b_.CreateAnd(b_.CreateLShr(size, f.dropped), k(1));
  llvm::Value* rounding = b_.CreateAdd(odd, k((1u << (f.dropped - 1)) - 1 - (f.bias << 23)));
  llvm::Value* normal = b_.CreateLShr(b_.CreateAdd(size, rounding), f.dropped);
  // Adding the large number rounds as the machine does; its low bits are then the code.
  llvm::Constant* large = llvm::ConstantExpr::getBitCast(k(f.to_integer << 23), x->getType());
  llvm::Value* sum = b_.CreateFAdd(b_.CreateBitCast(size, x->getType()), large);
  llvm::Value* small = b_.CreateSub(b_.CreateBitCast(sum, word), k(f.to_integer << 23));
  llvm::Value* code = b_.CreateSelect(b_.CreateICmpULT(size, k(f.smallest << 23)), small, normal);
  llvm::Value* beyond = k(f.beyond);
  if (to == ScalarType::Float8_e5m2)
    beyond = b_.CreateSelect(b_.CreateICmpUGT(size, k(0x7f800000)), k(0x7f), beyond);
  code = b_.CreateSelect(b_.CreateICmpUGE(size, k(f.limit)), beyond, code);
  llvm::Value* sign = b_.CreateAnd(b_.CreateLShr(bits, 24), k(0x80));
  return b_.CreateTrunc(b_.CreateOr(code, sign), shaped(b_.getInt8Ty(), x->getType()));
}

llvm::Value* Arithmetic::mark_short_nan(llvm::Value* x) {
  short_nan_.insert(x);
  return x;
}

llvm::Value* Arithmetic::are_words(llvm::Value* longs) {
  llvm::Type* t = longs->getType();
  constexpr uint64_t kMost = 0x7fffffff;
  return b_.CreateICmpULE(b_.CreateAdd(longs, llvm::ConstantInt::get(t, kMost)),
                          llvm::ConstantInt::get(t, 2 * kMost));
}

/// As x86 converts: what does not fit (NaN too) becomes the minimum. LLVM's own conversion is
/// poison there.
llvm::Value* Arithmetic::float_to_int(llvm::Value* x, unsigned bits) {
  llvm::Type* real = x->getType();
  if (bits == 32 && real->isVectorTy() && real->getScalarType()->isFloatTy() &&
      llvm::Triple(machine_.triple).isX86())
    return float_to_word(x);
  llvm::Type* t = shaped(b_.getIntNTy(bits), real);
  const double limit = bits == 64 ? 0x1p63 : 0x1p31;
  auto any = [&] {
    // Of the numbers above the next integer below the limit there are some in double alone.
    const bool exact = bits == 32 && real->getScalarType()->isDoubleTy();
    llvm::Value* fits = b_.CreateAnd(b_.CreateFCmpOLT(x, number(real, limit)),
                                     exact ? b_.CreateFCmpOGT(x, number(real, -limit - 1))
                                           : b_.CreateFCmpOGE(x, number(real, -limit)));
    auto* minimum = llvm::ConstantInt::get(t, llvm::APInt::getSignedMinValue(bits));
    return b_.CreateSelect(fits, b_.CreateFPToSI(x, t), minimum);
  };
  if (bits == 32 || !real->isVectorTy() || machine_.target.avx512()) return any();
  llvm::Value* size = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
  return usual_or_other(
      b_, b_.CreateFCmpOLT(size, number(real, 0x1p31)),
      [&] { return b_.CreateSExt(b_.CreateFPToSI(x, shaped(b_.getInt32Ty(), real)), t); }, any);
}

/// Vectors of float to int32, by the instruction itself, of which the smallest takes 4 lanes.
llvm::Value* Arithmetic::float_to_word(llvm::Value* x) {
  namespace x86 = llvm::Intrinsic;
  const auto most = static_cast<unsigned>(machine_.lanes);
  return in_parts(b_, x, most, [&](llvm::Value* part, unsigned width) -> llvm::Value* {
    if (width == 16)
      return b_.CreateIntrinsic(
          x86::x86_avx512_mask_cvttps2dq_512, {},
          {part, llvm::Constant::getNullValue(llvm::FixedVectorType::get(b_.getInt32Ty(), width)),
           b_.getInt16(0xffff), b_.getInt32(4)});
    if (width == 8) return b_.CreateIntrinsic(x86::x86_avx_cvtt_ps2dq_256, {}, {part});
    if (width == 4) return b_.CreateIntrinsic(x86::x86_sse2_cvttps2dq, {}, {part});
    llvm::Value* four = b_.CreateShuffleVector(part, {0, 1, -1, -1});
    return b_.CreateShuffleVector(b_.CreateIntrinsic(x86::x86_sse2_cvttps2dq, {}, {four}), {0, 1});
  });
}

/// Vectors of int64.
llvm::Value* Arithmetic::long_to_float(llvm::Value* x, llvm::Type* real) {
  auto any = [&] { return b_.CreateSIToFP(x, real); };
  if (machine_.target.avx512()) return any();
  return usual_or_other(
      b_, are_words(x),
      [&] { return b_.CreateSIToFP(b_.CreateTrunc(x, shaped(b_.getInt32Ty(), real)), real); }, any);
}

llvm::Value* Arithmetic::cast(llvm::Value* x, ScalarType from, ScalarType to) {
  if (from == to) return x;
  llvm::Type* t = shaped(register_type(b_.getContext(), to), x->getType());
  if (to == ScalarType::Bool) {
    if (is_reduced(from)) x = to_float(x, from);
    if (is_float(from)) return b_.CreateFCmpUNE(x, llvm::Constant::getNullValue(x->getType()));
    return b_.CreateICmpNE(x, llvm::Constant::getNullValue(x->getType()));
  }
  if (is_float(from)) {
    if (is_reduced(from)) x = to_float(x, from);
    bool is_double = from == ScalarType::Double;
    switch (to) {
      case ScalarType::Double:
        return widened(x, t);
      case ScalarType::Float:
        return is_double ? b_.CreateFPTrunc(x, t) : x;
      case ScalarType::BFloat16:
      case ScalarType::Half:
      case ScalarType::Float8_e4m3fn:
      case ScalarType::Float8_e5m2: {
        // From double through float, rounding twice, as c10 does.
        if (is_double) x = b_.CreateFPTrunc(x, shaped(b_.getFloatTy(), x->getType()));
        if (to == ScalarType::BFloat16) return float_to_bfloat16(x);
        if (c10::elementSize(to) == 1) return float_to_byte(x, to);
        return b_.CreateBitCast(b_.CreateFPTrunc(x, shaped(b_.getHalfTy(), x->getType())), t);
      }
      case ScalarType::Long:
        return float_to_int(x, 64);
      case ScalarType::Int:
        return float_to_int(x, 32);
      // c10 converts to unsigned bytes by way of int64, and compilers convert to narrow signed
      // types by way of int32. Floats from 2^31 on are multiples of 256, as is what int32 has in
      // their place.
      case ScalarType::Byte:
        return b_.CreateTrunc(float_to_int(x, is_double ? 64 : 32), t);
      default:
        return b_.CreateTrunc(float_to_int(x, 32), t);
    }
  }
  bool is_signed = !is_unsigned(from);
  if (is_reduced(to)) return cast(cast(x, from, ScalarType::Float), ScalarType::Float, to);
  if (is_float(to)) {
    if (from == ScalarType::Long && x->getType()->isVectorTy()) return long_to_float(x, t);
    return is_signed ? b_.CreateSIToFP(x, t) : b_.CreateUIToFP(x, t);
  }
  return b_.CreateIntCast(x, t, is_signed);
}

}  // namespace graft::codegen
