#include "codegen/llvm/near_math.h"

#include <llvm/IR/IntrinsicsX86.h>

#include "codegen/exp_coefficients.h"
#include "codegen/llvm/inline_math.h"

namespace graft::codegen {

namespace {

constexpr int kLanes = 16;

/// 2^s for s of [0, 1): a minimax polynomial, highest power first; relative error 2^-23.4.
constexpr float kExp2[] = {0.0018775766948238015F, 0.00898933969438076F, 0.05582631751894951F,
                           0.24015361070632935F,   0.6931530833244324F,  0.9999999403953552F};

/// tanh(x) = x P(x^2) / Q(x^2) up to kTanhMost, from where on it is 1: relative error 2^-25.5, and
/// 5.5 units with the roundings of Floats.
constexpr double kTanhMost = 9;
constexpr float kTanhP[] = {1.3354672923071575e-08F, 2.0609089915524237e-05F, 0.003495588665828109F,
                            0.13381026685237885F, 1.0F};
constexpr float kTanhQ[] = {7.776562824801658e-07F, 0.0003285635611973703F, 0.025876984000205994F,
                            0.4671434164047241F, 1.0F};

}  // namespace

bool NearMath::is_supported(const Machine& machine) {
  return machine.target.avx512() && machine.lanes == kLanes && machine.target.keeps_subnormals;
}

template <size_t n>
llvm::Value* NearMath::polynomial(const float (&terms)[n], llvm::Value* x) {
  llvm::Value* sum = k(x, terms[0]);
  for (size_t t = 1; t < n; ++t) sum = fma(sum, x, k(x, terms[t]));
  return sum;
}

llvm::Value* NearMath::one_plus_exp(llvm::Value* x, bool negative) {
  auto* none = llvm::Constant::getNullValue(x->getType());
  auto* all = llvm::Constant::getAllOnesValue(b_.getInt16Ty());
  const double log2_e = kExpSingle.inverse_ln2;
  llvm::Value* exponent = b_.CreateFMul(x, k(x, negative ? -log2_e : log2_e));
  constexpr uint32_t kLessFloor = 1;
  llvm::Value* s = b_.CreateIntrinsic(
      llvm::Intrinsic::x86_avx512_mask_reduce_ps_512, {},
      {exponent, b_.getInt32(kLessFloor), none, all, b_.getInt32(kUsualRounding)});
  llvm::Value* power = scale_by_power(b_, polynomial(kExp2, s), exponent);
  return b_.CreateFAdd(power, k(power, 1));
}

llvm::Value* NearMath::quotient(llvm::Value* x, llvm::Value* d) {
  llvm::Value* reciprocal = b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_rcp14_ps_512, {},
                                               {d, llvm::Constant::getNullValue(d->getType()),
                                                llvm::Constant::getAllOnesValue(b_.getInt16Ty())});
  llvm::Value* error = fma(b_.CreateFNeg(d), reciprocal, k(d, 1));
  // x may be infinite: the reciprocal is what is corrected.
  return b_.CreateFMul(x, fma(reciprocal, error, reciprocal));
}

llvm::Value* NearMath::tanh(llvm::Value* x) {
  x = clamp(b_, x, -kTanhMost, kTanhMost);
  llvm::Value* square = b_.CreateFMul(x, x);
  return clamp(b_,
               quotient(b_.CreateFMul(x, polynomial(kTanhP, square)), polynomial(kTanhQ, square)),
               -1, 1);
}

}  // namespace graft::codegen
