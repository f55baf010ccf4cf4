// Functions of Floats to a few units of the last place, for roundings that need no more (near.h).
// Their errors are in units of 2^-24 of the result, of which one of the last place is one or two.
#pragma once

#include <map>
#include <vector>

#include "codegen/llvm/arithmetic.h"

namespace graft::codegen {

/// The cheap evaluation of a value, and how far eager's is from it.
struct NearNumber {
  llvm::Value* value = nullptr;
  double units = 0;                 ///< at most so many 2^-24 of the value,
  llvm::Value* absolute = nullptr;  ///< and at most so much more; null: 0
  double most = 0;                  ///< of the value's size; 0: no bound is known
  bool has_sign = true;             ///< its sign is that of eager's, even if it is 0
  bool has_constant = false;        ///< a sum with one that is far above subnormal numbers
  bool is_exact() const { return units == 0 && absolute == nullptr; }
};
/// Of one rounding: what is evaluated already, and what must hold in each lane for the bounds.
struct NearState {
  std::map<int, NearNumber> cheap;
  std::map<int, llvm::Value*> exact;
  std::vector<llvm::Value*> conditions;
};

class NearMath {
 public:
  explicit NearMath(Builder& builder) : b_(builder) {}

  /// Are there instructions for it? It takes vectors of 16 Floats. (Not where subnormal numbers are
  /// flushed: next to them a small error is a large one.)
  static bool is_supported(const Machine& machine);

  /// 1 + e^x, or 1 + e^-x. Error, where that is less than kMostSum: 19.2, of which 14.8 are from
  /// rounding the exponent and ln 2, 3.4 from the polynomial.
  llvm::Value* one_plus_exp(llvm::Value* x, bool negative);
  static constexpr double kMostSum = 0x1p24;
  /// x / d, for d of which 1 / d is a normal number. Error: 2.1.
  llvm::Value* quotient(llvm::Value* x, llvm::Value* d);
  /// Error: 7; within [-1, 1].
  llvm::Value* tanh(llvm::Value* x);

 private:
  llvm::Value* k(llvm::Value* like, double value) {
    return llvm::ConstantFP::get(like->getType(), value);
  }
  llvm::Value* fma(llvm::Value* a, llvm::Value* b, llvm::Value* c) {
    return b_.CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, b, c});
  }
  template <size_t n>
  llvm::Value* polynomial(const float (&terms)[n], llvm::Value* x);

  Builder& b_;
};

}  // namespace graft::codegen
