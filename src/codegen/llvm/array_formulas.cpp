#include "codegen/llvm/array_formulas.h"

#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <array>
#include <bit>
#include <stdexcept>
#include <string>
#include <utility>

#include "codegen/array_formulas.h"
#include "codegen/llvm/inline_math.h"

namespace graft::codegen {

namespace {

using llvm::FixedVectorType;

/// Functions of vectors of one type. Each has a formula for nearly all numbers, and for the rest a
/// function of the kernel's module, or MKL's.
class ArrayFormulas {
 public:
  ArrayFormulas(Builder& builder, const Machine& machine, llvm::Module& module,
                FixedVectorType* type, const FormulaCalls& calls)
      : b_(builder),
        machine_(machine),
        module_(module),
        t_(type),
        words_(FixedVectorType::get(b_.getInt32Ty(), type->getNumElements())),
        in_registers_(machine.target.avx512() && type->getNumElements() == kLanes),
        calls_(calls) {}

  llvm::Value* run(ir::Routine routine, llvm::Value* x) {
    switch (routine) {
      case ir::Routine::FormulaSqrt: {
        llvm::Value* near = root(x);
        return in_lanes(near, outside(x, RootFormula::kLeast, RootFormula::kMost),
                        [&] { return nearest_root(x); });
      }
      case ir::Routine::FormulaFusedSqrt: {
        llvm::Value* near = fused_root(x);
        llvm::Value* beyond =
            outside(x, FusedRootFormula::kLeast, std::numeric_limits<float>::max());
        return in_lanes(near, beyond, [&] {
          llvm::Value* small = b_.CreateAnd(b_.CreateFCmpOGT(x, k(0)),
                                            b_.CreateFCmpOLT(x, k(FusedRootFormula::kLeast)));
          llvm::Value* scaled = fused_root(b_.CreateFMul(x, k(FusedRootFormula::kScale)));
          return b_.CreateSelect(
              small, b_.CreateFMul(scaled, k(1 / double{FusedRootFormula::kRootOfScale})),
              nearest_root(x));
        });
      }
      case ir::Routine::FormulaExp: {
        llvm::Value* near = exp(x);
        return mended(near, beyond_exp(x), [&] { return b_.CreateCall(rest(true), {x, near}); });
      }
      case ir::Routine::FormulaLog: {
        llvm::Value* near = log(x);
        return mended(near, beyond_log(x), [&] { return b_.CreateCall(rest(false), {x, near}); });
      }
      case ir::Routine::FormulaSin:
        return by_library(ir::Routine::ArraySin, x, sine(x, true), beyond_sine(x));
      case ir::Routine::FormulaCos:
        return by_library(ir::Routine::ArrayCos, x, sine(x, false), beyond_sine(x));
      case ir::Routine::FormulaTanh: {
        auto [near, unsure] = tanh(x);
        return by_library(ir::Routine::ArrayTanh, x, near, unsure);
      }
      default:
        throw std::logic_error("graft: " + std::string(info(routine).name) + " has no formula");
    }
  }

 private:
  static constexpr unsigned kLanes = 16;

  /// `near`, but MKL's in lanes that are beyond the formula.
  llvm::Value* by_library(ir::Routine array, llvm::Value* x, llvm::Value* near,
                          llvm::Value* beyond) {
    return in_lanes(near, beyond, [&] { return calls_.library(array, x); });
  }
  /// `near`, but `other` in lanes that are beyond the formula.
  llvm::Value* in_lanes(llvm::Value* near, llvm::Value* beyond,
                        llvm::function_ref<llvm::Value*()> other) {
    return mended(near, beyond, [&] { return b_.CreateSelect(beyond, other(), near); });
  }
  /// `near`, unless a lane is beyond the formula.
  llvm::Value* mended(llvm::Value* near, llvm::Value* other,
                      llvm::function_ref<llvm::Value*()> mend) {
    return usual_or_other(b_, b_.CreateNot(other), [&] { return near; }, mend);
  }

  llvm::Value* k(double value) { return llvm::ConstantFP::get(t_, value); }
  llvm::Value* infinity() { return llvm::ConstantFP::getInfinity(t_); }
  llvm::Value* word(uint64_t value) { return llvm::ConstantInt::get(words_, value); }
  llvm::Value* size(llvm::Value* x) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x); }

  /// Right between the limits, and of zeros.
  llvm::Value* root(llvm::Value* x) {
    llvm::Value *half = k(0.5), *least = k(RootFormula::kLeast);
    llvm::Value* e = estimated_reciprocal_root(
        b_.CreateSelect(b_.CreateFCmpOLT(x, least), least, x));  // which is finite of 0, too
    llvm::Value *near = b_.CreateFMul(x, e), *slope = b_.CreateFMul(e, half);
    llvm::Value* rest = b_.CreateFSub(half, b_.CreateFMul(near, slope));
    near = b_.CreateFAdd(near, b_.CreateFMul(near, rest));
    slope = b_.CreateFAdd(slope, b_.CreateFMul(slope, rest));
    llvm::Value* lacks = b_.CreateFSub(x, b_.CreateFMul(near, near));
    return b_.CreateFAdd(near, b_.CreateFMul(lacks, slope));
  }
  /// Right from the least number on, and of zeros.
  llvm::Value* fused_root(llvm::Value* x) {
    llvm::Value* least = k(FusedRootFormula::kLeast);
    llvm::Value* e = closely_estimated_reciprocal_root(
        b_.CreateSelect(b_.CreateFCmpOLT(x, least), least, x));  // which is finite of 0, too
    llvm::Value* near = b_.CreateFMul(x, e);
    return plus_product(plus_product(b_.CreateFNeg(near), near, x), b_.CreateFMul(e, k(0.5)), near);
  }
  /// Neither 0 nor one of the positive numbers between two, both included.
  llvm::Value* outside(llvm::Value* x, float least, float most) {
    const auto low = std::bit_cast<uint32_t>(least);
    const uint32_t range = std::bit_cast<uint32_t>(most) - low;
    return b_.CreateAnd(
        b_.CreateICmpUGT(b_.CreateSub(b_.CreateBitCast(x, words_), word(low)), word(range)),
        b_.CreateFCmpUNE(x, k(0)));
  }
  llvm::Value* nearest_root(llvm::Value* x) {
    llvm::Value* nan = llvm::ConstantFP::getQNaN(t_);
    llvm::Value* known = b_.CreateSelect(b_.CreateFCmpOLT(x, k(0)), nan, x);
    return b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, known);
  }
  /// The instruction takes 4 or 8 lanes; AVX-512 has one of its own, with other bits.
  llvm::Value* estimated_reciprocal_root(llvm::Value* x) {
    return in_parts(b_, x, 8, [&](llvm::Value* part, unsigned width) {
      return b_.CreateIntrinsic(
          width == 8 ? llvm::Intrinsic::x86_avx_rsqrt_ps_256 : llvm::Intrinsic::x86_sse_rsqrt_ps,
          {}, {part});
    });
  }
  /// That one.
  llvm::Value* closely_estimated_reciprocal_root(llvm::Value* x) {
    return in_parts(b_, x, kLanes, [&](llvm::Value* part, unsigned width) {
      const llvm::Intrinsic::ID id = width == 16  ? llvm::Intrinsic::x86_avx512_rsqrt14_ps_512
                                     : width == 8 ? llvm::Intrinsic::x86_avx512_rsqrt14_ps_256
                                                  : llvm::Intrinsic::x86_avx512_rsqrt14_ps_128;
      return b_.CreateIntrinsic(id, {},
                                {part, part, b_.getIntN(std::max(width, 8u), (1u << width) - 1)});
    });
  }

  /// Right up to the limit, and where the result is 0 or infinite; NaN stays, if tables are in
  /// registers.
  llvm::Value* exp(llvm::Value* x) {
    using Formula = ExpFormula;
    // Adding it rounds, and leaves the whole number in the low bits.
    llvm::Value* magic = k(0x1.8p23);
    llvm::Value* held = clamp(b_, x, -2 * Formula::kBeyond, 2 * Formula::kBeyond);
    llvm::Value* shifted = b_.CreateFAdd(b_.CreateFMul(held, k(Formula::kInverse)), magic);
    llvm::Value* whole = b_.CreateBitCast(shifted, words_);
    llvm::Value* q = b_.CreateFSub(shifted, magic);
    llvm::Value* s = b_.CreateFSub(held, b_.CreateFMul(q, k(Formula::kStepHigh)));
    s = b_.CreateFSub(s, b_.CreateFMul(q, k(Formula::kStepLow)));
    s = b_.CreateFAdd(s, b_.CreateFMul(b_.CreateFMul(s, s), k(0.5)));
    const Formula& table = exp_formula();
    llvm::Value* high = entry(table.high, whole);
    llvm::Value* low = b_.CreateFAdd(entry(table.low, whole), b_.CreateFMul(high, s));
    llvm::Value* u = b_.CreateFAdd(high, low);
    if (in_registers_) return scale_by_power(b_, u, b_.CreateFMul(q, k(1.0 / Formula::kEntries)));
    // (whole / 128) << 23, into the exponent.
    llvm::Value* power =
        b_.CreateShl(b_.CreateAnd(whole, word(~uint64_t{Formula::kEntries - 1})), word(16));
    return b_.CreateBitCast(b_.CreateAdd(b_.CreateBitCast(u, words_), power), t_);
  }
  llvm::Value* beyond_exp(llvm::Value* x) {
    if (!in_registers_) return b_.CreateFCmpUGT(size(x), k(ExpFormula::kLimit));
    return b_.CreateAnd(b_.CreateFCmpOGT(size(x), k(ExpFormula::kLimit)),
                        b_.CreateFCmpOLT(size(x), k(ExpFormula::kBeyond)));
  }

  using Entries = std::array<float, ExpFormula::kEntries>;
  /// Of the index the low bits count.
  llvm::Value* entry(const Entries& table, llvm::Value* index) {
    if (!in_registers_) return loaded(table, index);
    auto part = [&](size_t first) {
      return llvm::ConstantDataVector::get(b_.getContext(),
                                           llvm::ArrayRef(table).slice(first, kLanes));
    };
    // A permutation takes the lowest five bits; the others choose among four.
    std::array<llvm::Value*, 4> quarters;
    for (size_t k = 0; k < quarters.size(); ++k)
      quarters[k] =
          b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_vpermi2var_ps_512, {},
                             {part(2 * kLanes * k), index, part(2 * kLanes * k + kLanes)});
    auto bit = [&](uint64_t mask) {
      return b_.CreateICmpNE(b_.CreateAnd(index, word(mask)), word(0));
    };
    llvm::Value* third = bit(2 * kLanes);
    return b_.CreateSelect(bit(4 * kLanes), b_.CreateSelect(third, quarters[3], quarters[2]),
                           b_.CreateSelect(third, quarters[1], quarters[0]));
  }
  llvm::Value* loaded(const Entries& table, llvm::Value* index) {
    auto* numbers = llvm::ConstantDataArray::get(b_.getContext(), llvm::ArrayRef(table));
    auto* global = new llvm::GlobalVariable(module_, numbers->getType(), /*isConstant=*/true,
                                            llvm::GlobalValue::PrivateLinkage, numbers);
    global->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);  // equal ones become one
    llvm::Value* made = llvm::PoisonValue::get(t_);
    for (uint64_t lane = 0; lane < t_->getNumElements(); ++lane) {
      llvm::Value* at =
          b_.CreateAnd(b_.CreateExtractElement(index, lane), uint64_t{ExpFormula::kEntries - 1});
      llvm::Value* place =
          b_.CreateGEP(b_.getFloatTy(), global, b_.CreateZExt(at, b_.getInt64Ty()));
      made = b_.CreateInsertElement(made, b_.CreateLoad(b_.getFloatTy(), place), lane);
    }
    return made;
  }

  /// Right for normal numbers.
  llvm::Value* log(llvm::Value* x) {
    using Formula = LogFormula;
    llvm::Value* bits = b_.CreateSub(b_.CreateBitCast(x, words_), word(Formula::kTwoThirds));
    llvm::Value* power = b_.CreateSIToFP(b_.CreateAShr(bits, word(Formula::kMantissaBits)), t_);
    llvm::Value* mantissa =
        b_.CreateAdd(b_.CreateAnd(bits, word(Formula::kMantissa)), word(Formula::kTwoThirds));
    llvm::Value* r = b_.CreateFSub(b_.CreateBitCast(mantissa, t_), k(1));
    llvm::Value* p = k(Formula::kTerms[0]);
    for (size_t t = 1; t < Formula::kTerms.size(); ++t)
      p = b_.CreateFAdd(b_.CreateFMul(p, r), k(Formula::kTerms[t]));
    llvm::Value* sum = b_.CreateFAdd(r, b_.CreateFMul(r, b_.CreateFMul(r, p)));
    sum = b_.CreateFAdd(sum, b_.CreateFMul(power, k(Formula::kLn2Low)));
    return b_.CreateFAdd(sum, b_.CreateFMul(power, k(Formula::kLn2High)));
  }
  llvm::Value* beyond_log(llvm::Value* x) {
    return b_.CreateOr(b_.CreateFCmpULT(x, k(LogFormula::kLeast)), b_.CreateFCmpUEQ(x, infinity()));
  }

  /// Right up to the limit.
  llvm::Value* sine(llvm::Value* x, bool is_sin) {
    using Formula = SineFormula;
    // Adding it rounds, and leaves the whole number in the low bits.
    llvm::Value* magic = k(0x1.8p23);
    llvm::Value* a = size(x);
    llvm::Value* turned = is_sin ? a : b_.CreateFAdd(a, k(Formula::kQuarterTurn));
    llvm::Value* shifted = b_.CreateFAdd(b_.CreateFMul(turned, k(Formula::kInverse)), magic);
    llvm::Value* n = b_.CreateFPExt(b_.CreateFSub(shifted, magic), doubles());
    if (!is_sin) n = b_.CreateFSub(n, twice(0.5));
    llvm::Value* r = b_.CreateFPExt(a, doubles());
    r = plus_product(n, twice(-Formula::kHalfTurn), r);
    r = plus_product(n, twice(-Formula::kHalfTurnLow), r);
    llvm::Value* z = b_.CreateFMul(r, r);
    llvm::Value* p = polynomial(Formula::kTerms, z);
    llvm::Value* result = b_.CreateFPTrunc(plus_product(b_.CreateFMul(r, z), p, r), t_);
    llvm::Value* sign = b_.CreateShl(b_.CreateBitCast(shifted, words_), word(31));
    if (is_sin)
      sign = b_.CreateXor(sign, b_.CreateAnd(b_.CreateBitCast(x, words_), word(0x80000000)));
    return b_.CreateBitCast(b_.CreateXor(b_.CreateBitCast(result, words_), sign), t_);
  }
  llvm::Value* beyond_sine(llvm::Value* x) {
    return b_.CreateFCmpUGT(size(x), k(SineFormula::kLimit));
  }
  /// The nearest number, and where MKL may have another.
  std::pair<llvm::Value*, llvm::Value*> tanh(llvm::Value* x) {
    using Formula = TanhFormula;
    llvm::Value* a = size(x);
    llvm::Value* most = k(Formula::kMost);
    llvm::Value* held = b_.CreateSelect(b_.CreateFCmpOLT(a, most), a, most);
    llvm::Value* r = b_.CreateFPExt(held, doubles());
    llvm::Value* z = b_.CreateFMul(r, r);
    llvm::Value* above = b_.CreateFMul(r, polynomial(Formula::kAbove, z));
    llvm::Value* result = b_.CreateFDiv(above, polynomial(Formula::kBelow, z));
    auto* longs = FixedVectorType::get(b_.getInt64Ty(), t_->getNumElements());
    llvm::Value* is_large = b_.CreateFCmpOGE(a, k(Formula::kLarge));
    auto by_size = [&](auto of) {
      auto number = [&](uint64_t places) { return llvm::ConstantInt::get(longs, of(places)); };
      return b_.CreateSelect(is_large, number(Formula::kUnsureLarge), number(Formula::kUnsure));
    };
    llvm::Value* from_middle =
        b_.CreateAnd(b_.CreateAdd(b_.CreateBitCast(result, longs),
                                  by_size([](uint64_t u) { return u - Formula::kLast / 2; })),
                     llvm::ConstantInt::get(longs, Formula::kLast - 1));
    llvm::Value* unsure = b_.CreateICmpULE(from_middle, by_size([](uint64_t u) { return 2 * u; }));
    llvm::Value* near =
        b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, b_.CreateFPTrunc(result, t_), x);
    return {near, b_.CreateOr(unsure, b_.CreateFCmpUNO(x, x))};
  }
  llvm::Value* twice(double value) { return llvm::ConstantFP::get(doubles(), value); }
  llvm::Value* plus_product(llvm::Value* a, llvm::Value* b, llvm::Value* c) {
    return multiply_add(b_, machine_, a, b, c);
  }
  /// Of doubles, highest power first.
  llvm::Value* polynomial(llvm::ArrayRef<double> terms, llvm::Value* x) {
    llvm::Value* p = twice(terms[0]);
    for (double term : terms.drop_front()) p = plus_product(p, x, twice(term));
    return p;
  }

  /// (x, the formula's) -> the function's
  llvm::Function* rest(bool is_exp) {
    const std::string name =
        std::string(is_exp ? "graft.exp." : "graft.log.") + std::to_string(t_->getNumElements());
    if (llvm::Function* known = module_.getFunction(name)) return known;
    const llvm::IRBuilderBase::InsertPointGuard guard(b_);
    llvm::Function* made = begin_helper(b_, module_, name, t_);
    made->addFnAttr(llvm::Attribute::Cold);
    if (is_exp)
      finish_exp(made->getArg(0), made->getArg(1));
    else
      finish_log(made, made->getArg(0), made->getArg(1));
    return made;
  }

  llvm::Type* doubles() { return FixedVectorType::get(b_.getDoubleTy(), t_->getNumElements()); }
  void finish_exp(llvm::Value* x, llvm::Value* near) {
    llvm::Value* twice = inline_exp(b_, machine_, b_.CreateFPExt(x, doubles()), /*flushes=*/false);
    llvm::Value* right = b_.CreateFPTrunc(twice, t_);
    b_.CreateRet(b_.CreateSelect(b_.CreateFCmpOLE(size(x), k(ExpFormula::kLimit)), near, right));
  }

  void finish_log(llvm::Function* made, llvm::Value* x, llvm::Value* near) {
    llvm::Value* zero = k(0);
    // (A NaN plus itself is the quiet one.)
    llvm::Value* known =
        b_.CreateSelect(b_.CreateFCmpUEQ(x, infinity()), b_.CreateFAdd(x, x), near);
    known = b_.CreateSelect(b_.CreateFCmpOLT(x, zero), llvm::ConstantFP::getQNaN(t_), known);
    known =
        b_.CreateSelect(b_.CreateFCmpOEQ(x, zero), llvm::ConstantFP::getInfinity(t_, true), known);
    llvm::Value* subnormal =
        b_.CreateAnd(b_.CreateFCmpOGT(x, zero), b_.CreateFCmpOLT(x, k(LogFormula::kLeast)));
    auto* each = llvm::BasicBlock::Create(b_.getContext(), "each", made);
    auto* done = llvm::BasicBlock::Create(b_.getContext(), "done", made);
    b_.CreateCondBr(b_.CreateOrReduce(subnormal), each, done);
    b_.SetInsertPoint(done);
    b_.CreateRet(known);
    b_.SetInsertPoint(each);
    llvm::Value* right = b_.CreateFPTrunc(calls_.log(b_.CreateFPExt(x, doubles())), t_);
    b_.CreateRet(b_.CreateSelect(subnormal, right, known));
  }

  Builder& b_;
  const Machine& machine_;
  llvm::Module& module_;
  FixedVectorType* t_;
  llvm::Type* words_;
  bool in_registers_;  ///< of AVX-512
  const FormulaCalls& calls_;
};

}  // namespace

llvm::Value* array_formula(Builder& b, const Machine& machine, llvm::Module& module,
                           ir::Routine routine, llvm::Value* x, const FormulaCalls& calls) {
  if (auto* type = llvm::dyn_cast<FixedVectorType>(x->getType()))
    return ArrayFormulas(b, machine, module, type, calls).run(routine, x);
  auto* one = FixedVectorType::get(x->getType(), static_cast<unsigned>(machine.target.lanes));
  ArrayFormulas formulas(b, machine, module, one, calls);
  return b.CreateExtractElement(
      formulas.run(routine, b.CreateVectorSplat(one->getNumElements(), x)), uint64_t{0});
}

}  // namespace graft::codegen
