// A rounding near ties (near.h), as code: the cheap evaluation with its bounds, and eager's.
#include <llvm/IR/MDBuilder.h>

#include <bit>
#include <cmath>
#include <limits>

#include "codegen/llvm/emitter.h"

namespace graft::codegen {

namespace {

/// Numbers from here to there are far from the subnormal ones, and from infinite ones.
constexpr double kSafe = 0x1p-100, kSafeMost = 0x1p120;

llvm::Constant* number_like(llvm::Value* x, double number) {
  return llvm::ConstantFP::get(x->getType(), number);
}

/// Bounds of errors, as code. Null: there is no error.
class Errors {
 public:
  explicit Errors(Builder& builder) : b_(builder) {}

  /// A number's.
  llvm::Value* of(const NearNumber& x) {
    if (x.units == 0) return x.absolute;
    const double units = x.units * kRoom * 0x1p-24;
    return sum(x.most > 0 ? number_like(x.value, x.most * units)
                          : b_.CreateFMul(size(x.value), number_like(x.value, units)),
               x.absolute);
  }
  /// Of a product of numbers with these errors.
  llvm::Value* of_product(const NearNumber& a, llvm::Value* of_a, const NearNumber& b,
                          llvm::Value* of_b) {
    llvm::Value* both = sum(times(a, of_b), times(b, of_a));
    const bool is_known = a.most > 0 || b.most > 0;  // which has room for their product
    return of_a && of_b && !is_known ? sum(both, b_.CreateFMul(of_a, of_b)) : both;
  }
  llvm::Value* sum(llvm::Value* a, llvm::Value* b) {
    return a == nullptr ? b : b == nullptr ? a : b_.CreateFAdd(a, b);
  }
  llvm::Value* size(llvm::Value* x) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x); }

  static constexpr double kRoom = 1.01;  ///< for the roundings of bounds

 private:
  llvm::Value* times(const NearNumber& x, llvm::Value* error) {
    if (error == nullptr) return nullptr;
    return b_.CreateFMul(x.most > 0 ? number_like(error, x.most * kRoom) : size(x.value), error);
  }

  Builder& b_;
};

}  // namespace

bool Emitter::is_near(int v) {
  // Values that are hoisted go into blocks that are complete already.
  return !near_.empty() && near_[static_cast<size_t>(v)] == Near::Rounding &&
         b_.GetInsertBlock()->getTerminator() == nullptr;
}

/// The cast `v`, of which lanes that are sure get the cheap evaluation's bits.
llvm::Value* Emitter::near_rounding(int v) {
  const int root = value(v).in[0];
  NearState state;
  const NearNumber cheap = near_value(root, state);
  llvm::Value* kept = near_bits(cheap, state);
  llvm::Value* sure = state.conditions.front();
  for (size_t h = 1; h < state.conditions.size(); ++h)
    sure = b_.CreateAnd(sure, state.conditions[h]);

  llvm::BasicBlock *near = b_.GetInsertBlock(), *exact = block("exact"), *after = block("rounded");
  b_.CreateCondBr(b_.CreateAndReduce(sure), after, exact,
                  llvm::MDBuilder(b_.getContext()).createLikelyBranchWeights());
  b_.SetInsertPoint(exact);
  llvm::Value* rounded =
      arithmetic_.cast(exact_value(root, state), ScalarType::Float, ScalarType::BFloat16);
  llvm::Value* exactly = arithmetic_.cast(rounded, ScalarType::BFloat16, ScalarType::Float);
  llvm::BasicBlock* last = b_.GetInsertBlock();
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
  llvm::PHINode* result = b_.CreatePHI(kept->getType(), 2);
  result->addIncoming(kept, near);
  result->addIncoming(exactly, last);
  return arithmetic_.narrowed(result);
}

/// The rounded number, as a Float; `state` gets where it is eager's. Ties are where the low half is
/// 0x8000: adding that carries for what is beyond, into the half that is kept.
llvm::Value* Emitter::near_bits(const NearNumber& x, NearState& state) {
  llvm::Type *real = x.value->getType(), *word = shaped(b_.getInt32Ty(), real);
  auto k = [&](uint32_t bits) { return llvm::ConstantInt::get(word, bits); };
  auto plus = [&](llvm::Value* number, uint32_t bits) {
    return b_.CreateAdd(b_.CreateBitCast(number, word), k(bits));
  };
  constexpr uint32_t kTie = 0x8000, kKept = kBFloat16Bits;
  if (x.absolute == nullptr) {
    // Within the bound of a tie, the low half of the sum is small.
    const auto units = std::bit_ceil(static_cast<uint32_t>(std::ceil(x.units)));
    llvm::Value* sum = plus(x.value, kTie + units);
    state.conditions.push_back(
        b_.CreateICmpNE(b_.CreateAnd(sum, k(~kKept & ~(2 * units - 1))), k(0)));
    return b_.CreateBitCast(b_.CreateAnd(sum, k(kKept)), real);
  }
  // Both ends of what eager's may be, and some more where numbers are subnormal, round alike.
  constexpr uint32_t kMore = 4;
  llvm::Value* size = Errors(b_).size(x.value);
  llvm::Value* units = number_like(size, x.units * Errors::kRoom * 0x1p-24);
  llvm::Value* width = b_.CreateIntrinsic(llvm::Intrinsic::fma, {real}, {size, units, x.absolute});
  llvm::Value* least = plus(b_.CreateFSub(size, width), kTie - kMore);
  llvm::Value* most = plus(b_.CreateFAdd(size, width), kTie + kMore);
  state.conditions.push_back(
      b_.CreateICmpEQ(b_.CreateAnd(b_.CreateXor(least, most), k(kKept)), k(0)));
  // (False for a width that is NaN.)
  state.conditions.push_back(
      b_.CreateFCmpOLT(width, number_like(width, std::numeric_limits<double>::infinity())));
  if (!x.has_sign) state.conditions.push_back(b_.CreateFCmpOGE(size, number_like(size, kSafe)));
  return b_.CreateBitCast(b_.CreateAnd(plus(x.value, kTie), k(kKept)), real);
}

/// Makes what the expression begins with, but for constants, before its evaluations part.
const NearNumber& Emitter::near_value(int v, NearState& state) {
  const auto known = state.cheap.find(v);
  if (known != state.cheap.end()) return known->second;
  return state.cheap[v] = make_near(v, state);
}

NearNumber Emitter::make_near(int v, NearState& state) {
  const PlanValue& x = value(v);
  if (near_[static_cast<size_t>(v)] != Near::Inside) {
    llvm::Value* begin = wide(v);
    // Adding to the bits of other NaNs might make numbers of them.
    if (!arithmetic_.has_short_nan(begin))
      state.conditions.push_back(b_.CreateFCmpORD(begin, begin));
    NearNumber made{begin};
    if (x.op == ir::Op::Const) made.most = std::abs(std::bit_cast<double>(x.payload));
    return made;
  }
  if (is_tanh(x))
    return {NearMath(b_).tanh(near_value(x.in[0], state).value), kTanhUnits, nullptr, 1};
  if (x.op == ir::Op::Div) return near_quotient(x, state);
  std::array<NearNumber, 3> in;
  std::array<llvm::Value*, 3> operands = {};
  for (size_t k = 0; k < in.size(); ++k)
    if (x.in[k] >= 0) in[k] = near_value(x.in[k], state), operands[k] = in[k].value;
  NearNumber made{operation(x, operands)};
  if (in[0].is_exact() && in[1].is_exact() && in[2].is_exact()) return made;
  llvm::Value* number = made.value;
  if (x.op == ir::Op::Neg)
    made = in[0];
  else if (x.op == ir::Op::Mul)
    made = near_product(in[0], in[1], state);
  else
    made = near_sum(x, in, state);
  made.value = number;
  return made;
}

NearNumber Emitter::near_quotient(const PlanValue& x, NearState& state) {
  NearMath math(b_);
  NearNumber made = near_value(x.in[0], state);
  hold_factor(made, state);
  const int exponent = one_plus_exp(plan_, x.in[1]).exponent;
  const bool negated = near_[static_cast<size_t>(exponent)] == Near::Inside;
  llvm::Value* divisor =
      math.one_plus_exp(wide(negated ? value(exponent).in[0] : exponent), negated);
  state.conditions.push_back(b_.CreateFCmpOLT(divisor, number_like(divisor, NearMath::kMostSum)));
  // The divisor is at least 1.
  made.value = math.quotient(made.value, divisor);
  made.units += kQuotientUnits;
  made.most *= Errors::kRoom;
  made.has_sign = true;
  made.has_constant = false;
  return made;
}

NearNumber Emitter::near_product(const NearNumber& a, const NearNumber& b, NearState& state) {
  hold_factor(a, state);
  hold_factor(b, state);
  NearNumber made;
  made.units = a.units + b.units + kOperationUnits;
  made.absolute = Errors(b_).of_product(a, a.absolute, b, b.absolute);
  made.most = a.most * b.most * Errors::kRoom;
  return made;
}

/// A sum, a difference or a multiply-add.
NearNumber Emitter::near_sum(const PlanValue& x, const std::array<NearNumber, 3>& in,
                             NearState& state) {
  const auto& [a, b, c] = in;
  const double constant = large_constant(x);
  Errors errors(b_);
  NearNumber made;
  made.units = kOperationUnits;
  if (x.op == ir::Op::Fma) {
    const double product = a.most * b.most;  // 0: not known
    // What subnormal factors lose does not matter next to a constant.
    if (constant == 0 || product == 0) hold_factor(a, state), hold_factor(b, state);
    hold_addend(c, state);
    made.absolute = errors.sum(errors.of_product(a, errors.of(a), b, errors.of(b)), errors.of(c));
    made.has_sign = product > 0 && product <= constant;
    if (product > 0 && c.most > 0) made.most = product + c.most;
  } else {
    hold_addend(a, state), hold_addend(b, state);
    made.absolute = errors.sum(errors.of(a), errors.of(b));
    if (a.most > 0 && b.most > 0) made.most = a.most + b.most;
    made.has_sign = made.most > 0 && made.most - constant <= constant;
  }
  made.most *= Errors::kRoom;
  made.has_constant = constant != 0;
  return made;
}

/// A sum's constant operand, as it is added, if it is so large that no subnormal number matters in
/// the sum; otherwise 0. (Where it is added, a sum with as much less is +0, as after rounding.)
double Emitter::large_constant(const PlanValue& x) const {
  auto number = [&](int in) {
    const PlanValue& operand = value(in);
    return operand.op == ir::Op::Const ? std::bit_cast<double>(operand.payload) : 0;
  };
  double found = number(x.in[x.op == ir::Op::Fma ? 2 : 0]);
  if (found == 0 && x.op != ir::Op::Fma) found = number(x.in[1]) * (x.op == ir::Op::Sub ? -1 : 1);
  return std::abs(found) >= 0x1p-24 ? found : 0;
}

/// A factor next to the subnormal numbers may have lost its last places, and another one turn that
/// into more than its bound; of one next to 0 the sign is open; one that is too large may be
/// infinite in one evaluation alone.
void Emitter::hold_factor(const NearNumber& x, NearState& state) {
  if (x.is_exact()) return;
  hold_addend(x, state);
  if (x.has_sign && x.has_constant) return;
  llvm::Value* size = Errors(b_).size(x.value);
  if (!x.has_sign) size = b_.CreateFSub(size, Errors(b_).of(x));
  state.conditions.push_back(b_.CreateFCmpOGE(size, number_like(size, kSafe)));
}

void Emitter::hold_addend(const NearNumber& x, NearState& state) {
  if (x.is_exact() || (x.most > 0 && x.most <= kSafeMost)) return;
  llvm::Value* size = Errors(b_).size(x.value);
  state.conditions.push_back(b_.CreateFCmpOLT(size, number_like(size, kSafeMost)));
}

llvm::Value* Emitter::exact_value(int v, NearState& state) {
  const PlanValue& x = value(v);
  if (near_[static_cast<size_t>(v)] != Near::Inside) return wide(v);
  if (const auto known = state.exact.find(v); known != state.exact.end()) return known->second;
  std::array<llvm::Value*, 3> in = {};
  for (size_t k = 0; k < in.size(); ++k)
    if (x.in[k] >= 0) in[k] = exact_value(x.in[k], state);
  return state.exact[v] = operation(x, in);
}

}  // namespace graft::codegen
