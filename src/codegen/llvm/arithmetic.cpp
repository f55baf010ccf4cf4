#include "codegen/llvm/arithmetic.h"

#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/MDBuilder.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace graft::codegen {

using ir::Op;
using llvm::Intrinsic::ID;

llvm::Value* usual_or_other(Builder& b, llvm::Value* usually,
                            llvm::function_ref<llvm::Value*()> usual,
                            llvm::function_ref<llvm::Value*()> other) {
  llvm::BasicBlock* before = b.GetInsertBlock();
  if (before->getTerminator() != nullptr) return other();
  auto block = [&](const char* name) {
    return llvm::BasicBlock::Create(b.getContext(), name, before->getParent());
  };
  llvm::BasicBlock *first = block("usual"), *second = block("other"), *after = block("either");
  b.CreateCondBr(b.CreateAndReduce(usually), first, second,
                 llvm::MDBuilder(b.getContext()).createLikelyBranchWeights());
  b.SetInsertPoint(first);
  llvm::Value* quick = usual();
  b.CreateBr(after);
  b.SetInsertPoint(second);
  llvm::Value* slow = other();
  b.CreateBr(after);
  b.SetInsertPoint(after);
  llvm::PHINode* result = b.CreatePHI(quick->getType(), 2);
  result->addIncoming(quick, first);
  result->addIncoming(slow, second);
  return result;
}

llvm::Value* in_parts(Builder& b, llvm::Value* x, unsigned most,
                      llvm::function_ref<llvm::Value*(llvm::Value*, unsigned)> function) {
  const unsigned lanes = llvm::cast<llvm::FixedVectorType>(x->getType())->getNumElements();
  const unsigned width = std::min(lanes, most);
  std::vector<llvm::Value*> parts;
  for (unsigned first = 0; first < lanes; first += width) {
    std::vector<int> taken(width);
    std::iota(taken.begin(), taken.end(), static_cast<int>(first));
    parts.push_back(function(b.CreateShuffleVector(x, taken), width));
  }
  return llvm::concatenateVectors(b, parts);
}

llvm::Type* register_type(llvm::LLVMContext& c, ScalarType type) {
  switch (type) {
    case ScalarType::Bool:
      return llvm::Type::getInt1Ty(c);
    case ScalarType::Byte:
    case ScalarType::Char:
    case ScalarType::Float8_e4m3fn:
    case ScalarType::Float8_e5m2:
      return llvm::Type::getInt8Ty(c);
    case ScalarType::Short:
    case ScalarType::Half:
    case ScalarType::BFloat16:
      return llvm::Type::getInt16Ty(c);
    case ScalarType::Int:
      return llvm::Type::getInt32Ty(c);
    case ScalarType::Long:
      return llvm::Type::getInt64Ty(c);
    case ScalarType::Float:
      return llvm::Type::getFloatTy(c);
    case ScalarType::Double:
      return llvm::Type::getDoubleTy(c);
    default:
      throw std::runtime_error(std::string("graft: no code for dtype ") + c10::toString(type));
  }
}

llvm::Type* memory_type(llvm::LLVMContext& c, ScalarType type) {
  return type == ScalarType::Bool ? llvm::Type::getInt8Ty(c) : register_type(c, type);
}

llvm::Type* shaped(llvm::Type* scalar, llvm::Type* like) {
  if (auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(like))
    return llvm::FixedVectorType::get(scalar, vector->getNumElements());
  return scalar;
}

static const llvm::fltSemantics& semantics(ScalarType narrow) {
  switch (narrow) {
    case ScalarType::Half:
      return llvm::APFloat::IEEEhalf();
    case ScalarType::Float8_e4m3fn:
      return llvm::APFloat::Float8E4M3FN();
    case ScalarType::Float8_e5m2:
      return llvm::APFloat::Float8E5M2();
    default:
      return llvm::APFloat::BFloat();
  }
}

llvm::Constant* Arithmetic::constant(int64_t payload, ScalarType type) {
  auto& c = b_.getContext();
  if (type == ScalarType::Float || type == ScalarType::Double)
    return llvm::ConstantFP::get(register_type(c, type), std::bit_cast<double>(payload));
  if (is_reduced(type)) {
    llvm::APFloat value(std::bit_cast<double>(payload));
    bool inexact;
    // As eager: through float, then to the narrow type.
    value.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven, &inexact);
    value.convert(semantics(type), llvm::APFloat::rmNearestTiesToEven, &inexact);
    return llvm::ConstantInt::get(c, value.bitcastToAPInt());
  }
  if (type == ScalarType::Bool) return b_.getInt1(payload != 0);
  return llvm::ConstantInt::get(register_type(c, type), static_cast<uint64_t>(payload));
}

llvm::Value* Arithmetic::scalar(llvm::Value* bits, ScalarType type) {
  auto& c = b_.getContext();
  if (type == ScalarType::Float) {
    llvm::Value* x = b_.CreateFPTrunc(b_.CreateBitCast(bits, b_.getDoubleTy()), b_.getFloatTy());
    return mark_short_nan(b_.CreateSelect(is_nan(x), llvm::ConstantFP::getNaN(x->getType()), x));
  }
  if (is_float(type))
    return cast(b_.CreateBitCast(bits, b_.getDoubleTy()), ScalarType::Double, type);
  if (type == ScalarType::Bool) return b_.CreateICmpNE(bits, b_.getInt64(0));
  return b_.CreateTrunc(bits, register_type(c, type));
}

llvm::Value* Arithmetic::node(Op op, ScalarType type, ScalarType operand, llvm::Value* x,
                              llvm::Value* y, llvm::Value* z) {
  if (ir::is_compared(op)) return compare(op, operand, x, y);
  if (op == Op::Cast) return cast(x, operand, type);
  llvm::Value* made = compute(op, type, x, y, z);
  bool is_short = type == ScalarType::Float && op != Op::Bitcast &&
                  (op == Op::Select || has_short_nan(x)) && (y == nullptr || has_short_nan(y)) &&
                  (z == nullptr || has_short_nan(z));
  return is_short ? mark_short_nan(made) : made;
}

bool Arithmetic::has_short_nan(llvm::Value* x) const {
  const auto* number = llvm::dyn_cast<llvm::ConstantFP>(x);
  if (const auto* splat = llvm::dyn_cast<llvm::Constant>(x); splat && number == nullptr)
    number = llvm::dyn_cast_or_null<llvm::ConstantFP>(splat->getSplatValue());
  return short_nan_.contains(x) || (number != nullptr && !number->isNaN());
}

llvm::Value* Arithmetic::compute(Op op, ScalarType type, llvm::Value* x, llvm::Value* y,
                                 llvm::Value* z) {
  const bool real = type == ScalarType::Float || type == ScalarType::Double;
  auto unary = [&](ID id) { return b_.CreateUnaryIntrinsic(id, x); };
  switch (op) {
    case Op::Add:
      return real ? b_.CreateFAdd(x, y) : b_.CreateAdd(x, y);
    case Op::Sub:
      return real ? b_.CreateFSub(x, y) : b_.CreateSub(x, y);
    case Op::Mul:
      return real ? b_.CreateFMul(x, y) : b_.CreateMul(x, y);
    case Op::Neg:
      return real ? b_.CreateFNeg(x) : b_.CreateNeg(x);
    case Op::Abs:
      if (real) return unary(llvm::Intrinsic::fabs);
      if (is_unsigned(type)) return x;
      return b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x, b_.getFalse());
    case Op::Max:
    case Op::Min:
      return extreme(op == Op::Max, type, x, y);
    case Op::Div:
      return b_.CreateFDiv(x, y);
    case Op::Fma:
      return b_.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z});
    case Op::Sqrt:
      return unary(llvm::Intrinsic::sqrt);
    case Op::Floor:
      return unary(llvm::Intrinsic::floor);
    case Op::Ceil:
      return unary(llvm::Intrinsic::ceil);
    case Op::Trunc:
      return unary(llvm::Intrinsic::trunc);
    case Op::RoundEven:
      return unary(llvm::Intrinsic::roundeven);
    case Op::CopySign:
      return b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, x, y);
    case Op::IDiv:
      return divide(false, type, x, y);
    case Op::IRem:
      return divide(true, type, x, y);
    case Op::Shl:
      return shift(true, !is_unsigned(type), x, y);
    case Op::Shr:
      return shift(false, !is_unsigned(type), x, y);
    case Op::And:
      return b_.CreateAnd(x, y);
    case Op::Or:
      return b_.CreateOr(x, y);
    case Op::Xor:
      return b_.CreateXor(x, y);
    case Op::Not:
      return b_.CreateNot(x);
    case Op::Select:
      return b_.CreateSelect(x, y, z);
    case Op::Bitcast:
      return b_.CreateBitCast(x, shaped(register_type(b_.getContext(), type), x->getType()));
    case Op::Load:
    case Op::Const:
    case Op::Scalar:
    case Op::Axis:
    case Op::Reduced:
    case Op::Eq:
    case Op::Ne:
    case Op::Lt:
    case Op::Le:
    case Op::Gt:
    case Op::Ge:
    case Op::Cast:
    case Op::Call:
      break;
  }
  throw std::runtime_error("graft: " + std::string(info(op).name) + " is no arithmetic");
}

namespace {

bool is_power_of_two(const llvm::Value* divisor) {
  const auto* constant = llvm::dyn_cast<llvm::Constant>(divisor);
  if (constant == nullptr) return false;
  if (constant->getType()->isVectorTy()) constant = constant->getSplatValue();
  const auto* number = llvm::dyn_cast_or_null<llvm::ConstantInt>(constant);
  return number != nullptr && number->getValue().isStrictlyPositive() &&
         number->getValue().isPowerOf2();
}

}  // namespace

llvm::Value* Arithmetic::divide(bool remainder, ScalarType type, llvm::Value* x, llvm::Value* y) {
  llvm::Type* t = x->getType();
  unsigned bits = t->getScalarSizeInBits();
  bool is_signed = !is_unsigned(type);
  auto* zero = llvm::Constant::getNullValue(t);
  auto* one = llvm::ConstantInt::get(t, 1);
  llvm::Value* by_zero = b_.CreateICmpEQ(y, zero);
  // Minimum / -1 wraps to the minimum, which dividing by 1 gives as well; remainders by 1 and -1
  // are 0.
  llvm::Value* unsafe = by_zero;
  if (is_signed) {
    auto* minimum = llvm::ConstantInt::get(t, llvm::APInt::getSignedMinValue(bits));
    auto* minus_one = llvm::Constant::getAllOnesValue(t);
    unsafe = b_.CreateOr(by_zero,
                         b_.CreateAnd(b_.CreateICmpEQ(x, minimum), b_.CreateICmpEQ(y, minus_one)));
  }
  llvm::Value* d = b_.CreateSelect(unsafe, one, y);
  llvm::Value* quotient;
  if (!t->isVectorTy() || is_power_of_two(y)) {  // by that it is a shift
    quotient = is_signed ? b_.CreateSDiv(x, d) : b_.CreateUDiv(x, d);
  } else if (bits <= 32) {
    // Exact: a quotient of integers below 2^32 is at least 2^-32 away from the next integer, and
    // double has 53 bits.
    llvm::Type* real = shaped(b_.getDoubleTy(), t);
    auto widen = [&](llvm::Value* v) {
      return is_signed ? b_.CreateSIToFP(v, real) : b_.CreateUIToFP(v, real);
    };
    llvm::Value* q = b_.CreateFDiv(widen(x), widen(d));
    llvm::Type* wide = shaped(b_.getInt32Ty(), t);
    quotient = b_.CreateTrunc(b_.CreateFPToSI(q, wide), t);
  } else {
    quotient = divide_longs(x, d);
  }
  if (remainder) return b_.CreateSelect(unsafe, zero, b_.CreateSub(x, b_.CreateMul(quotient, d)));
  return b_.CreateSelect(by_zero, zero, quotient);
}

/// Vectors of int64; processors divide these one by one.
llvm::Value* Arithmetic::divide_longs(llvm::Value* x, llvm::Value* y) {
  llvm::Type* t = x->getType();
  return usual_or_other(
      b_, b_.CreateAnd(are_words(x), are_words(y)),
      [&] {
        llvm::Type *word = shaped(b_.getInt32Ty(), t), *real = shaped(b_.getDoubleTy(), t);
        auto widen = [&](llvm::Value* v) { return b_.CreateSIToFP(b_.CreateTrunc(v, word), real); };
        return b_.CreateSExt(b_.CreateFPToSI(b_.CreateFDiv(widen(x), widen(y)), word), t);
      },
      [&] { return b_.CreateSDiv(x, y); });
}

llvm::Value* Arithmetic::shift(bool left, bool is_signed, llvm::Value* x, llvm::Value* count) {
  llvm::Type* t = x->getType();
  unsigned bits = t->getScalarSizeInBits();
  llvm::Value* fits = b_.CreateICmpULT(count, llvm::ConstantInt::get(t, bits));
  auto* zero = llvm::Constant::getNullValue(t);
  if (left) return b_.CreateSelect(fits, b_.CreateShl(x, b_.CreateSelect(fits, count, zero)), zero);
  if (!is_signed)
    return b_.CreateSelect(fits, b_.CreateLShr(x, b_.CreateSelect(fits, count, zero)), zero);
  return b_.CreateAShr(x, b_.CreateSelect(fits, count, llvm::ConstantInt::get(t, bits - 1)));
}

llvm::Value* Arithmetic::compare(Op op, ScalarType type, llvm::Value* x, llvm::Value* y) {
  using P = llvm::CmpInst::Predicate;
  struct Comparison {
    Op op;
    P real, is_signed, is_unsigned;
  };
  constexpr Comparison kComparisons[] = {
      {Op::Eq, P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ},
      {Op::Ne, P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE},
      {Op::Lt, P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT},
      {Op::Le, P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE},
      {Op::Gt, P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT},
      {Op::Ge, P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE},
  };
  if (is_reduced(type)) x = to_float(x, type), y = to_float(y, type);
  for (const Comparison& c : kComparisons)
    if (c.op == op)
      return b_.CreateCmp(is_float(type)      ? c.real
                          : is_unsigned(type) ? c.is_unsigned
                                              : c.is_signed,
                          x, y);
  throw std::runtime_error("graft: " + std::string(info(op).name) + " is no comparison");
}

llvm::Value* Arithmetic::greater(ScalarType type, llvm::Value* a, llvm::Value* b) {
  return compare(Op::Gt, type, a, b);
}

llvm::Value* Arithmetic::extreme(bool largest, ScalarType type, llvm::Value* a, llvm::Value* b) {
  llvm::Value* wins = largest ? greater(type, a, b) : less(type, a, b);
  llvm::Value* chosen = b_.CreateSelect(wins, a, b);
  // If b is NaN the comparison is false and b is chosen already.
  return is_float(type) ? b_.CreateSelect(is_nan(a), a, chosen) : chosen;
}

}  // namespace graft::codegen
