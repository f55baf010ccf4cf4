#include "codegen/llvm/inline_math.h"

#include <llvm/IR/IntrinsicsX86.h>

#include <vector>

namespace graft::codegen {

namespace {

class Exp {
 public:
  Exp(Builder& builder, const Machine& machine, llvm::Type* type)
      : b_(builder), machine_(machine), t_(type) {}

  llvm::Value* run(llvm::Value* x) {
    return t_->getScalarType()->isFloatTy() ? single(x) : twice(x);
  }

 private:
  llvm::Value* k(double value) { return llvm::ConstantFP::get(t_, value); }
  llvm::Value* mla(llvm::Value* a, llvm::Value* b, llvm::Value* c) {
    if (machine_.target.fma) return b_.CreateIntrinsic(llvm::Intrinsic::fma, {t_}, {a, b, c});
    return b_.CreateFAdd(b_.CreateFMul(a, b), c);
  }
  llvm::Value* clamp(llvm::Value* x, double low, double high) {
    // NaN compares false and stays.
    x = b_.CreateSelect(b_.CreateFCmpOGT(x, k(high)), k(high), x);
    return b_.CreateSelect(b_.CreateFCmpOLT(x, k(low)), k(low), x);
  }

  llvm::Value* single(llvm::Value* x) {
    llvm::Value* d = clamp(x, -104.5, 104.5);
    llvm::Value* q = b_.CreateUnaryIntrinsic(
        llvm::Intrinsic::roundeven,
        b_.CreateFMul(d, k(1.442695040888963407359924681001892137426645954152985934135449406931f)));
    llvm::Value* s = mla(q, k(-0.693145751953125f), d);
    s = mla(q, k(-1.428606765330187045e-06f), s);
    llvm::Value* u = k(0.000198527617612853646278381f);
    for (float c : {0.00139304355252534151077271f, 0.00833336077630519866943359f,
                    0.0416664853692054748535156f, 0.166666671633720397949219f, 0.5f})
      u = mla(u, s, k(c));
    u = b_.CreateFAdd(k(1.0), mla(b_.CreateFMul(s, s), u, s));
    return scale(u, q, 23, 127, b_.getInt32Ty());
  }

  llvm::Value* twice(llvm::Value* x) {
    llvm::Value* d = clamp(x, -1000.5, 1000.5);
    llvm::Value* q = b_.CreateUnaryIntrinsic(
        llvm::Intrinsic::roundeven,
        b_.CreateFMul(d, k(1.442695040888963407359924681001892137426645954152985934135449406931)));
    llvm::Value* s = mla(q, k(-.69314718055966295651160180568695068359375), d);
    s = mla(q, k(-.28235290563031577122588448175013436025525412068e-12), s);
    llvm::Value *s2 = b_.CreateFMul(s, s), *s4 = b_.CreateFMul(s2, s2), *s8 = b_.CreateFMul(s4, s4);
    auto pair = [&](double high, double low) { return mla(s, k(high), k(low)); };
    llvm::Value* low = mla(s2, pair(+0.1388888888914497797e-2, +0.8333333333314938210e-2),
                           pair(+0.4166666666666602598e-1, +0.1666666666666669072e+0));
    llvm::Value* middle = mla(s2, pair(+0.2755762628169491192e-6, +0.2755723402025388239e-5),
                              pair(+0.2480158687479686264e-4, +0.1984126989855865850e-3));
    llvm::Value* u =
        mla(s8, pair(+0.2081276378237164457e-8, +0.2511210703042288022e-7), mla(s4, middle, low));
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
    bool is_float = t_->getScalarType()->isFloatTy();
    unsigned native = is_float ? 16 : 8;
    auto id = is_float ? llvm::Intrinsic::x86_avx512_mask_scalef_ps_512
                       : llvm::Intrinsic::x86_avx512_mask_scalef_pd_512;
    std::vector<llvm::Value*> parts;
    for (unsigned first = 0; first < lanes; first += native) {
      std::vector<int> order;
      for (unsigned k = 0; k < native; ++k) order.push_back(static_cast<int>(first + k));
      auto part = [&](llvm::Value* x) {
        return lanes == native ? x : b_.CreateShuffleVector(x, order);
      };
      llvm::Value* a = part(u);
      llvm::Value* all = is_float ? llvm::Constant::getAllOnesValue(b_.getInt16Ty())
                                  : llvm::Constant::getAllOnesValue(b_.getInt8Ty());
      constexpr uint32_t kRoundAsUsual = 4;
      parts.push_back(b_.CreateIntrinsic(id, {},
                                         {a, part(q), llvm::Constant::getNullValue(a->getType()),
                                          all, b_.getInt32(kRoundAsUsual)}));
    }
    if (parts.size() == 1) return parts[0];
    std::vector<int> order;
    for (unsigned k = 0; k < lanes; ++k) order.push_back(static_cast<int>(k));
    return b_.CreateShuffleVector(parts[0], parts[1], order);
  }

  Builder& b_;
  const Machine& machine_;
  llvm::Type* t_;
};

}  // namespace

llvm::Value* inline_exp(Builder& builder, const Machine& machine, llvm::Value* x) {
  return Exp(builder, machine, x->getType()).run(x);
}

bool inline_exp_is_sleef(const Machine& machine) {
  return machine.target.fma;
}

}  // namespace graft::codegen
