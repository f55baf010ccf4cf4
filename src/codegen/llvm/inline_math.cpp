#include "codegen/llvm/inline_math.h"

#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>

#include <iterator>
#include <utility>
#include <vector>

#include "codegen/exp_coefficients.h"

namespace graft::codegen {

namespace {

class Exp {
 public:
  Exp(Builder& builder, const Machine& machine, llvm::Type* type, bool flushes)
      : b_(builder), machine_(machine), t_(type), flushes_(flushes) {}

  llvm::Value* run(llvm::Value* x) {
    if (!t_->getScalarType()->isFloatTy()) return twice(x);
    llvm::Value* y = single(x);
    return flushes_ ? b_.CreateSelect(b_.CreateFCmpOLT(x, k(kLeastNormal)), k(0), y) : y;
  }

 private:
  llvm::Value* k(double value) { return llvm::ConstantFP::get(t_, value); }
  llvm::Value* mla(llvm::Value* a, llvm::Value* b, llvm::Value* c) {
    return multiply_add(b_, machine_, a, b, c);
  }

  /// x = q * ln 2 + s; gives q and s.
  template <class Coefficients>
  std::pair<llvm::Value*, llvm::Value*> reduced(llvm::Value* x, const Coefficients& c,
                                                double lowest) {
    llvm::Value* d = clamp(b_, x, lowest, c.limit);
    llvm::Value* q =
        b_.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, b_.CreateFMul(d, k(c.inverse_ln2)));
    return {q, mla(q, k(-c.ln2_low), mla(q, k(-c.ln2_high), d))};
  }

  llvm::Value* single(llvm::Value* x) {
    auto [q, s] = reduced(x, kExpSingle, flushes_ ? kLeastNormal : -kExpSingle.limit);
    llvm::Value* u = k(kExpSingle.terms[0]);
    for (size_t t = 1; t < std::size(kExpSingle.terms); ++t) u = mla(u, s, k(kExpSingle.terms[t]));
    u = b_.CreateFAdd(k(1.0), mla(b_.CreateFMul(s, s), u, s));
    return scale(u, q, 23, 127, b_.getInt32Ty());
  }

  llvm::Value* twice(llvm::Value* x) {
    auto [q, s] = reduced(x, kExpTwice, -kExpTwice.limit);
    llvm::Value *s2 = b_.CreateFMul(s, s), *s4 = b_.CreateFMul(s2, s2), *s8 = b_.CreateFMul(s4, s4);
    llvm::Value* of = s;
    auto pair = [&](size_t t) { return mla(of, k(kExpTwice.terms[t]), k(kExpTwice.terms[t + 1])); };
    llvm::Value* low = mla(s2, pair(6), pair(8));
    llvm::Value* middle = mla(s2, pair(2), pair(4));
    llvm::Value* u = mla(s8, pair(0), mla(s4, middle, low));
    for (double c : {0.5, 1.0, 1.0}) u = mla(u, s, k(c));
    return scale(u, q, 52, 1023, b_.getInt64Ty());
  }

  /// u * 2^q in two exact steps but for the last rounding, so that the result may be denormal or
  /// infinite.
  llvm::Value* scale(llvm::Value* u, llvm::Value* q, int mantissa, int bias, llvm::Type* word) {
    auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(t_);
    if (machine_.target.avx512() && vector)
      return scale_by_instruction(u, q, vector->getNumElements());
    llvm::Type* w = shaped(word, t_);
    auto power = [&](llvm::Value* n) {
      return b_.CreateBitCast(
          b_.CreateShl(b_.CreateAdd(n, llvm::ConstantInt::get(w, static_cast<uint64_t>(bias))),
                       static_cast<uint64_t>(mantissa)),
          t_);
    };
    // A NaN's exponent does not matter: the product is NaN. (Frozen, as converting NaN is poison.)
    llvm::Value* n = b_.CreateFreeze(b_.CreateFPToSI(q, w));
    llvm::Value* half = b_.CreateAShr(n, 1);
    return b_.CreateFMul(b_.CreateFMul(u, power(half)), power(b_.CreateSub(n, half)));
  }

  /// VSCALEF rounds once, as the two steps do.
  llvm::Value* scale_by_instruction(llvm::Value* u, llvm::Value* q, unsigned lanes) {
    unsigned native = t_->getScalarType()->isFloatTy() ? 16 : 8;
    std::vector<llvm::Value*> parts;
    for (unsigned first = 0; first < lanes; first += native) {
      std::vector<int> order;
      for (unsigned k = 0; k < native; ++k) order.push_back(static_cast<int>(first + k));
      auto part = [&](llvm::Value* x) {
        return lanes == native ? x : b_.CreateShuffleVector(x, order);
      };
      llvm::Value* a = part(u);
      parts.push_back(scale_by_power(b_, a, part(q)));
    }
    if (parts.size() == 1) return parts[0];
    std::vector<int> order;
    for (unsigned k = 0; k < lanes; ++k) order.push_back(static_cast<int>(k));
    return b_.CreateShuffleVector(parts[0], parts[1], order);
  }

  Builder& b_;
  const Machine& machine_;
  llvm::Type* t_;
  bool flushes_;
};

}  // namespace

llvm::Value* inline_exp(Builder& builder, const Machine& machine, llvm::Value* x, bool flushes) {
  return Exp(builder, machine, x->getType(), flushes).run(x);
}

llvm::Value* multiply_add(Builder& b, const Machine& machine, llvm::Value* x, llvm::Value* y,
                          llvm::Value* z) {
  if (machine.target.fma) return b.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z});
  return b.CreateFAdd(b.CreateFMul(x, y), z);
}

llvm::Function* begin_helper(Builder& b, llvm::Module& module, const std::string& name,
                             llvm::FixedVectorType* type) {
  llvm::LLVMContext& context = module.getContext();
  llvm::Function* around = b.GetInsertBlock()->getParent();
  auto* made = llvm::Function::Create(llvm::FunctionType::get(type, {type, type}, false),
                                      llvm::Function::InternalLinkage, name, module);
  made->setAttributes(around->getAttributes().removeParamAttributes(context, 0));
  made->setDoesNotAccessMemory();
  made->setWillReturn();
  made->addFnAttr(llvm::Attribute::NoInline);
  b.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", made));
  return made;
}

llvm::Value* clamp(Builder& b, llvm::Value* x, double low, double high) {
  auto k = [&](double value) { return llvm::ConstantFP::get(x->getType(), value); };
  // NaN compares false and stays.
  x = b.CreateSelect(b.CreateFCmpOGT(x, k(high)), k(high), x);
  return b.CreateSelect(b.CreateFCmpOLT(x, k(low)), k(low), x);
}

llvm::Value* scale_by_power(Builder& b, llvm::Value* u, llvm::Value* q) {
  const bool is_float = u->getType()->getScalarType()->isFloatTy();
  return b.CreateIntrinsic(is_float ? llvm::Intrinsic::x86_avx512_mask_scalef_ps_512
                                    : llvm::Intrinsic::x86_avx512_mask_scalef_pd_512,
                           {},
                           {u, q, llvm::Constant::getNullValue(u->getType()),
                            llvm::Constant::getAllOnesValue(b.getIntNTy(is_float ? 16 : 8)),
                            b.getInt32(kUsualRounding)});
}

}  // namespace graft::codegen
