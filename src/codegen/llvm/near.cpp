#include "codegen/llvm/near.h"

#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/MDBuilder.h>

#include <bit>

#include "codegen/exp_coefficients.h"
#include "codegen/llvm/emitter.h"
#include "codegen/llvm/inline_math.h"

namespace graft::codegen {

namespace {

class Roundings {
 public:
  explicit Roundings(const KernelPlan& plan)
      : plan_(plan), uses_(plan.values.size(), 0), made_(plan.values.size(), Near::No) {}

  std::vector<Near> run() {
    count_uses();
    for (size_t v = 0; v < made_.size(); ++v) {
      const PlanValue& x = plan_.values[v];
      const LoopPlan& home = plan_.loops[static_cast<size_t>(x.home)];
      if (x.op != ir::Op::Cast || x.type != ScalarType::BFloat16 || !x.varying || !home.vector ||
          home.strips || x.table_value >= 0 || value(x.in[0]).type != ScalarType::Float)
        continue;
      inside_.clear();
      const int units = difference(x.in[0], x.home);
      if (units == 0 || units >= kNearUnits) continue;
      made_[v] = Near::Rounding;
      for (int i : inside_) made_[static_cast<size_t>(i)] = Near::Inside;
    }
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

  /// Is the value of the expression alone? Then it is inside.
  bool take(int v, int home) {
    const PlanValue& x = value(v);
    if (uses_[static_cast<size_t>(v)] != 1 || !x.varying || x.home != home || x.table_value >= 0)
      return false;
    inside_.push_back(v);
    return true;
  }

  /// Units of the last place between the two evaluations, at most; 0: the expression begins here.
  ///
  /// In 2^-24 of the value, of which a unit is one or two. A quotient: rounding 1.44 y, which is
  /// below 24, 11 and its factor's own error 4; the polynomial 3; the sum 1; the product with a
  /// reciprocal 2; eager's exp 2, sum 1, quotient 1.
  int difference(int v, int home) {
    constexpr int kQuotient = 25, kProduct = 2;
    const size_t before = inside_.size();
    if (!take(v, home)) return 0;
    const PlanValue& x = value(v);
    int units = 0;
    if (x.op == ir::Op::Neg) {
      units = difference(x.in[0], home);
    } else if (x.op == ir::Op::Mul) {
      const int first = difference(x.in[0], home), second = difference(x.in[1], home);
      units = first + second > 0 ? first + second + kProduct : 0;
    } else if (x.op == ir::Op::Div) {
      const OnePlusExp divisor = one_plus_exp(plan_, x.in[1]);
      if (divisor.exp >= 0 && take(x.in[1], home) && take(divisor.exp, home)) {
        if (value(divisor.exponent).op == ir::Op::Neg) take(divisor.exponent, home);
        units = difference(x.in[0], home) + kQuotient;
      }
    }
    if (units == 0) inside_.resize(before);
    return units;
  }

  const KernelPlan& plan_;
  std::vector<int> uses_;
  std::vector<Near> made_;
  std::vector<int> inside_;  ///< of the expression that is looked at
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
  std::vector<llvm::Value*> holds;
  llvm::Value* cheap = near_value(root, holds);
  llvm::Type* word = shaped(b_.getInt32Ty(), cheap->getType());
  auto k = [&](uint32_t bits) { return llvm::ConstantInt::get(word, bits); };
  // Ties are where the low half is 0x8000: up to them and beyond, then, the sum's is small.
  llvm::Value* sum = b_.CreateAdd(b_.CreateBitCast(cheap, word), k(0x8000 + kNearUnits));
  llvm::Value* sure = b_.CreateICmpNE(b_.CreateAnd(sum, k(0xffff & ~(2 * kNearUnits - 1))), k(0));
  for (llvm::Value* h : holds) sure = b_.CreateAnd(sure, h);
  llvm::Value* kept = b_.CreateBitCast(b_.CreateAnd(sum, k(0xffff0000)), cheap->getType());

  llvm::BasicBlock *near = b_.GetInsertBlock(), *exact = block("exact"), *after = block("rounded");
  b_.CreateCondBr(b_.CreateAndReduce(sure), after, exact,
                  llvm::MDBuilder(b_.getContext()).createLikelyBranchWeights());
  b_.SetInsertPoint(exact);
  llvm::Value* rounded =
      arithmetic_.cast(exact_value(root), ScalarType::Float, ScalarType::BFloat16);
  llvm::Value* exactly = arithmetic_.cast(rounded, ScalarType::BFloat16, ScalarType::Float);
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
  llvm::PHINode* result = b_.CreatePHI(cheap->getType(), 2);
  result->addIncoming(kept, near);
  result->addIncoming(exactly, exact);
  return arithmetic_.narrowed(result);
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

llvm::Value* Emitter::near_value(int v, std::vector<llvm::Value*>& holds) {
  if (near_[static_cast<size_t>(v)] != Near::Inside) {
    // Adding to the bits of other NaNs might make numbers of them.
    llvm::Value* begin = wide(v);
    if (!arithmetic_.has_short_nan(begin)) holds.push_back(b_.CreateFCmpORD(begin, begin));
    return begin;
  }
  const PlanValue& x = value(v);
  llvm::Value* first = near_value(x.in[0], holds);
  if (x.op == ir::Op::Neg) return b_.CreateFNeg(first);
  if (x.op == ir::Op::Mul) return b_.CreateFMul(first, near_value(x.in[1], holds));
  const int exponent = one_plus_exp(plan_, x.in[1]).exponent;
  const bool turned = near_[static_cast<size_t>(exponent)] == Near::Inside;
  llvm::Value* power =
      near_exp(b_, wide(turned ? value(exponent).in[0] : exponent), /*negative=*/turned);
  llvm::Value* divisor = b_.CreateFAdd(power, llvm::ConstantFP::get(power->getType(), 1.0));
  holds.push_back(b_.CreateFCmpOLT(divisor, llvm::ConstantFP::get(divisor->getType(), kNearMost)));
  return near_quotient(b_, first, divisor);
}

llvm::Value* Emitter::exact_value(int v) {
  const PlanValue& x = value(v);
  if (near_[static_cast<size_t>(v)] != Near::Inside) return wide(v);
  std::array<llvm::Value*, 3> in = {};
  for (size_t k = 0; k < in.size(); ++k)
    if (x.in[k] >= 0) in[k] = exact_value(x.in[k]);
  return operation(x, in);
}

}  // namespace graft::codegen
