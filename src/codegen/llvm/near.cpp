#include "codegen/llvm/near.h"

#include <llvm/IR/MDBuilder.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "codegen/llvm/emitter.h"

namespace graft::codegen {

namespace {

/// Units of 2^-24 between the two evaluations of x / (1 + e^y) and of tanh: NearMath's errors and
/// eager's, of which SLEEF's functions have 2 and an operation 1.
constexpr double kQuotientUnits = 19.2 + 2.1 + 4, kTanhUnits = 7 + 2;
/// What an operation on inexact numbers adds: it rounds in both.
constexpr double kOperationUnits = 2;
/// Where a bound is in units alone, it is less than these units of the last place.
constexpr int kMostUnits = 32;
/// Numbers from here to there are far from the subnormal ones, and from infinite ones.
constexpr double kSafe = 0x1p-100, kSafeMost = 0x1p120;

bool is_tanh(const PlanValue& x) {
  return x.op == ir::Op::Call && x.payload == static_cast<int64_t>(ir::Routine::VectorTanh);
}

class Roundings {
 public:
  explicit Roundings(const KernelPlan& plan)
      : plan_(plan),
        uses_(plan.values.size(), 0),
        gains_(plan.values.size(), false),
        made_(plan.values.size(), Near::No) {}

  std::vector<Near> run() {
    count_uses();
    // Operands come before those who use them.
    for (size_t v = 0; v < gains_.size(); ++v) gains_[v] = gains(static_cast<int>(v));
    for (size_t v = 0; v < made_.size(); ++v)
      if (const PlanValue& x = plan_.values[v];
          x.op == ir::Op::Cast && x.type == ScalarType::BFloat16 && is_in_lanes(x))
        rounding(static_cast<int>(v));
    return made_;
  }

 private:
  const PlanValue& value(int v) const { return plan_.values[static_cast<size_t>(v)]; }

  void count_uses() {
    auto use = [&](int v) {
      if (v >= 0) ++uses_[static_cast<size_t>(v)];
    };
    for (const PlanValue& v : plan_.values) {
      for (int in : v.in) use(in);
      for (const auto& [index, stride] : v.indirect) use(index);
      use(v.table_value);
      use(v.digit_value);
    }
    for (const StatementPlan& s : plan_.statements) {
      use(s.value);
      use(s.input);
      for (const auto& [index, stride] : s.store_indirect) use(index);
      for (int v : s.quiet) use(v);
    }
  }

  bool is_in_lanes(const PlanValue& x) const {
    const LoopPlan& home = plan_.loops[static_cast<size_t>(x.home)];
    return x.varying && home.vector && !home.strips && x.table_value < 0;
  }
  bool is_used_once(int v, int home) const {
    return uses_[static_cast<size_t>(v)] == 1 && value(v).home == home && is_in_lanes(value(v));
  }

  /// Is its cheap evaluation one of fewer instructions, or has it a part that is?
  bool gains(int v) const {
    const PlanValue& x = value(v);
    if (!is_in_lanes(x) || x.type != ScalarType::Float) return false;
    if (is_tanh(x) || is_quotient(x)) return true;
    if (!carries(x)) return false;
    for (int in : x.in)
      if (in >= 0 && gains_[static_cast<size_t>(in)]) return true;
    return false;
  }
  bool is_quotient(const PlanValue& x) const {
    if (x.op != ir::Op::Div) return false;
    const OnePlusExp divisor = one_plus_exp(plan_, x.in[1]);
    return divisor.exp >= 0 && is_used_once(x.in[1], x.home) && is_used_once(divisor.exp, x.home);
  }
  static bool carries(const PlanValue& x) {
    return x.op == ir::Op::Neg || x.op == ir::Op::Add || x.op == ir::Op::Sub ||
           x.op == ir::Op::Mul || x.op == ir::Op::Fma;
  }

  void rounding(int root) {
    const int home = value(root).home;
    std::map<int, int> asked{{value(root).in[0], 1}};  // by what is inside
    std::vector<int> inside;
    for (auto at = asked.end(); at != asked.begin();) {
      --at;  // those who use a value come before it
      const auto [v, count] = *at;
      if (!gains_[static_cast<size_t>(v)] || value(v).home != home ||
          uses_[static_cast<size_t>(v)] != count)
        continue;
      inside.push_back(v);
      const PlanValue& x = value(v);
      if (carries(x))
        for (int in : x.in)
          if (in >= 0) ++asked[in];
      if (is_quotient(x)) {
        ++asked[x.in[0]];
        const OnePlusExp divisor = one_plus_exp(plan_, x.in[1]);
        inside.push_back(x.in[1]);
        inside.push_back(divisor.exp);
        if (value(divisor.exponent).op == ir::Op::Neg && is_used_once(divisor.exponent, home))
          inside.push_back(divisor.exponent);
      }
    }
    for (int v : inside) made_[static_cast<size_t>(v)] = Near::Inside;
    const double units = this->units(value(root).in[0]);
    // Bounds that are computed cost more than a quotient gains.
    const bool pays = std::isinf(units) ? std::any_of(inside.begin(), inside.end(),
                                                      [&](int v) { return is_tanh(value(v)); })
                                        : units > 0 && units < kMostUnits;
    if (pays)
      made_[static_cast<size_t>(root)] = Near::Rounding;
    else
      for (int v : inside) made_[static_cast<size_t>(v)] = Near::No;
  }

  /// NearNumber::units of a value; infinite where there is an absolute bound.
  double units(int v) const {
    const PlanValue& x = value(v);
    if (made_[static_cast<size_t>(v)] != Near::Inside) return 0;
    if (is_tanh(x)) return kTanhUnits;
    if (x.op == ir::Op::Div) return units(x.in[0]) + kQuotientUnits;
    double sum = 0;
    for (int in : x.in)
      if (in >= 0) sum += units(in);
    if (sum == 0 || x.op == ir::Op::Neg) return sum;
    return x.op == ir::Op::Mul ? sum + kOperationUnits : std::numeric_limits<double>::infinity();
  }

  const KernelPlan& plan_;
  std::vector<int> uses_;
  std::vector<bool> gains_;
  std::vector<Near> made_;
};

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
    llvm::Value* units = number_like(x.value, x.units * kRoom * 0x1p-24);
    units = x.most > 0 ? b_.CreateFMul(number_like(x.value, x.most), units)
                       : b_.CreateFMul(size(x.value), units);
    return sum(units, x.absolute);
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

OnePlusExp one_plus_exp(const KernelPlan& plan, int v) {
  const PlanValue& sum = plan.values[static_cast<size_t>(v)];
  if (sum.op != ir::Op::Add || sum.type != ScalarType::Float) return {};
  for (const auto& [one, exp] :
       {std::pair{sum.in[0], sum.in[1]}, std::pair{sum.in[1], sum.in[0]}}) {
    const PlanValue &k = plan.values[static_cast<size_t>(one)],
                    &e = plan.values[static_cast<size_t>(exp)];
    if (k.op == ir::Op::Const && std::bit_cast<double>(k.payload) == 1.0 && e.op == ir::Op::Call &&
        e.payload == static_cast<int64_t>(ir::Routine::VectorExp))
      return {exp, e.in[0]};
  }
  return {};
}

std::vector<Near> near_roundings(const KernelPlan& plan) {
  return Roundings(plan).run();
}

bool Emitter::is_near(int v) {
  // Values that are hoisted go into blocks that are complete already.
  return !near_.empty() && near_[static_cast<size_t>(v)] == Near::Rounding &&
         b_.GetInsertBlock()->getTerminator() == nullptr;
}

/// The cast `v`, of which lanes that are sure get the cheap evaluation's bits.
llvm::Value* Emitter::near_rounding(int v) {
  const int root = value(v).in[0];
  begin_near(root);
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
  constexpr uint32_t kTie = 0x8000, kKept = 0xffff0000;
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

/// What the expression begins with is made before its evaluations part.
void Emitter::begin_near(int v) {
  if (near_[static_cast<size_t>(v)] != Near::Inside) {
    wide(v);
    return;
  }
  for (int in : value(v).in)
    if (in >= 0) begin_near(in);
}

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
