#include "codegen/llvm/table_exp.h"

#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>

#include <array>
#include <string>

#include "codegen/exp_coefficients.h"
#include "codegen/llvm/inline_math.h"

namespace graft::codegen {

namespace {

using llvm::FixedVectorType;

class TableExp {
 public:
  /// Of vectors of that type.
  TableExp(Builder& builder, const Machine& machine, llvm::Module& module, FixedVectorType* type)
      : b_(builder),
        machine_(machine),
        module_(module),
        t_(type),
        words_(FixedVectorType::get(b_.getInt32Ty(), type->getNumElements())),
        in_registers_(machine.target.avx512() && type->getNumElements() == kLanes) {}

  llvm::Value* run(llvm::Value* x) {
    llvm::Value* near = main(x);
    // Where the result is 0 or infinite, the main path has it, too.
    llvm::Value* size = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
    llvm::Value* other = in_registers_ ? b_.CreateAnd(b_.CreateFCmpOGT(size, k(ExpTable::kLimit)),
                                                      b_.CreateFCmpOLT(size, k(ExpTable::kBeyond)))
                                       : b_.CreateFCmpUGT(size, k(ExpTable::kLimit));
    llvm::BasicBlock* before = b_.GetInsertBlock();
    // What is hoisted goes into blocks that are complete already.
    if (before->getTerminator() != nullptr) return b_.CreateCall(rest(), {x, near});
    llvm::Function* kernel = before->getParent();
    auto* beyond = llvm::BasicBlock::Create(b_.getContext(), "beyond", kernel);
    auto* after = llvm::BasicBlock::Create(b_.getContext(), "exp", kernel);
    b_.CreateCondBr(b_.CreateOrReduce(other), beyond, after,
                    llvm::MDBuilder(b_.getContext()).createUnlikelyBranchWeights());
    b_.SetInsertPoint(beyond);
    llvm::Value* mended = b_.CreateCall(rest(), {x, near});
    b_.CreateBr(after);
    b_.SetInsertPoint(after);
    llvm::PHINode* result = b_.CreatePHI(t_, 2);
    result->addIncoming(near, before);
    result->addIncoming(mended, beyond);
    return result;
  }

 private:
  static constexpr unsigned kLanes = 16;

  llvm::Value* k(double value) { return llvm::ConstantFP::get(t_, value); }
  llvm::Value* word(uint64_t value) { return llvm::ConstantInt::get(words_, value); }

  /// Right up to the limit; NaN stays, if tables are in registers.
  llvm::Value* main(llvm::Value* x) {
    // Adding it rounds, and leaves the whole number in the low bits.
    llvm::Value* magic = k(0x1.8p23);
    llvm::Value* held = clamp(b_, x, -2 * ExpTable::kBeyond, 2 * ExpTable::kBeyond);
    llvm::Value* shifted = b_.CreateFAdd(b_.CreateFMul(held, k(ExpTable::kInverse)), magic);
    llvm::Value* whole = b_.CreateBitCast(shifted, words_);
    llvm::Value* q = b_.CreateFSub(shifted, magic);
    llvm::Value* s = b_.CreateFSub(held, b_.CreateFMul(q, k(ExpTable::kStepHigh)));
    s = b_.CreateFSub(s, b_.CreateFMul(q, k(ExpTable::kStepLow)));
    s = b_.CreateFAdd(s, b_.CreateFMul(b_.CreateFMul(s, s), k(0.5)));
    const ExpTable& table = exp_table();
    llvm::Value* high = entry(table.high, whole);
    llvm::Value* u =
        b_.CreateFAdd(high, b_.CreateFAdd(entry(table.low, whole), b_.CreateFMul(high, s)));
    if (in_registers_) return scale_by_power(b_, u, b_.CreateFMul(q, k(1.0 / ExpTable::kEntries)));
    // (whole / 128) << 23, into the exponent.
    llvm::Value* power =
        b_.CreateShl(b_.CreateAnd(whole, word(~uint64_t{ExpTable::kEntries - 1})), word(16));
    return b_.CreateBitCast(b_.CreateAdd(b_.CreateBitCast(u, words_), power), t_);
  }

  using Entries = std::array<float, ExpTable::kEntries>;
  /// Of the index the low bits count.
  llvm::Value* entry(const Entries& table, llvm::Value* index) {
    if (!in_registers_) return gathered(table, index);
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

  llvm::Value* gathered(const Entries& table, llvm::Value* index) {
    auto* numbers = llvm::ConstantDataArray::get(b_.getContext(), llvm::ArrayRef(table));
    auto* global = new llvm::GlobalVariable(module_, numbers->getType(), /*isConstant=*/true,
                                            llvm::GlobalValue::PrivateLinkage, numbers);
    llvm::Value* made = llvm::PoisonValue::get(t_);
    for (uint64_t lane = 0; lane < t_->getNumElements(); ++lane) {
      llvm::Value* at =
          b_.CreateAnd(b_.CreateExtractElement(index, lane), uint64_t{ExpTable::kEntries - 1});
      made = b_.CreateInsertElement(
          made, b_.CreateLoad(b_.getFloatTy(), b_.CreateGEP(b_.getFloatTy(), global, at)), lane);
    }
    return made;
  }

  /// (x, e^x up to the limit) -> e^x
  llvm::Function* rest() {
    const unsigned lanes = t_->getNumElements();
    const std::string name = "graft.exp." + std::to_string(lanes);
    if (llvm::Function* known = module_.getFunction(name)) return known;
    const llvm::IRBuilderBase::InsertPointGuard guard(b_);
    llvm::LLVMContext& context = b_.getContext();
    llvm::Function* around = b_.GetInsertBlock()->getParent();
    auto* made = llvm::Function::Create(llvm::FunctionType::get(t_, {t_, t_}, false),
                                        llvm::Function::InternalLinkage, name, module_);
    made->setAttributes(around->getAttributes().removeParamAttributes(context, 0));
    made->setDoesNotAccessMemory();
    made->setWillReturn();
    made->addFnAttr(llvm::Attribute::NoInline);
    made->addFnAttr(llvm::Attribute::Cold);
    b_.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", made));
    llvm::Value *x = made->getArg(0), *near = made->getArg(1);
    const unsigned native = machine_.target.avx512() ? 8 : 4;
    llvm::Value* right = llvm::PoisonValue::get(t_);
    for (unsigned first = 0; first < lanes; first += native) {
      llvm::SmallVector<int, 8> order;
      for (unsigned lane = 0; lane < native; ++lane)
        order.push_back(static_cast<int>(std::min(first + lane, lanes - 1)));
      auto* twice = FixedVectorType::get(b_.getDoubleTy(), native);
      llvm::Value* wide = b_.CreateFPExt(b_.CreateShuffleVector(x, order), twice);
      llvm::Value* part = b_.CreateFPTrunc(inline_exp(b_, machine_, wide, /*flushes=*/false),
                                           FixedVectorType::get(b_.getFloatTy(), native));
      for (unsigned lane = first; lane < std::min(first + native, lanes); ++lane)
        right = b_.CreateInsertElement(right, b_.CreateExtractElement(part, lane - first), lane);
    }
    llvm::Value* size = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
    b_.CreateRet(b_.CreateSelect(b_.CreateFCmpOLE(size, k(ExpTable::kLimit)), near, right));
    return made;
  }

  Builder& b_;
  const Machine& machine_;
  llvm::Module& module_;
  FixedVectorType* t_;
  llvm::Type* words_;
  bool in_registers_;  ///< of AVX-512
};

}  // namespace

llvm::Value* table_exp(Builder& b, const Machine& machine, llvm::Module& module, llvm::Value* x) {
  if (auto* type = llvm::dyn_cast<FixedVectorType>(x->getType()))
    return TableExp(b, machine, module, type).run(x);
  auto* one = FixedVectorType::get(x->getType(), static_cast<unsigned>(machine.target.lanes));
  return b.CreateExtractElement(
      TableExp(b, machine, module, one).run(b.CreateVectorSplat(one->getNumElements(), x)),
      uint64_t{0});
}

}  // namespace graft::codegen
