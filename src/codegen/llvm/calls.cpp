#include "codegen/llvm/calls.h"

#include <llvm/IR/Module.h>

#include "codegen/llvm/array_formulas.h"
#include "codegen/llvm/compiler.h"
#include "codegen/llvm/inline_math.h"

namespace graft::codegen {

using llvm::FixedVectorType;

namespace {

/// int (int): this thread's number of MKL threads from now on, 0 for the global one; gives the old.
constexpr const char* kSetThreads = "MKL_Set_Num_Threads_Local";

unsigned lanes_in(llvm::Value* x) {
  auto* vector = llvm::dyn_cast<FixedVectorType>(x->getType());
  return vector ? vector->getNumElements() : 1;
}

}  // namespace

llvm::AllocaInst* Calls::slot(llvm::Type* type) {
  llvm::IRBuilder<> at(prologue_->getTerminator());
  llvm::AllocaInst* made = at.CreateAlloca(type);
  made->setAlignment(llvm::Align(64));
  return made;
}

llvm::Value* Calls::call(ir::Routine routine, ScalarType type, llvm::Value* x, llvm::Value* y) {
  if (inline_has_its_bits(routine, machine_.target))
    return inline_exp(b_, machine_, x, /*flushes=*/false);
  if (info(routine).form == ir::RoutineForm::Formula)
    return array_formula(b_, machine_, module_, routine, x,
                         {[&](llvm::Value* y) { return libm("log", y, nullptr); },
                          [&](ir::Routine array, llvm::Value* y) { return vml(array, type, y); }});
  const RoutineCall call = routine_call(routine, type, machine_.target);
  switch (call.source) {
    case RoutineSource::Vml:
      return vml(routine, type, x);
    case RoutineSource::Sleef:
      return sleef(call, x, y);
    case RoutineSource::Libm:
      if (routine == ir::Routine::ScalarFmod && x->getType()->isVectorTy() &&
          machine_.target.avx2())
        return fmod(call.symbol, x, y);
      return libm(call.symbol, x, y);
    case RoutineSource::Inline:
      break;
  }
  return inline_exp(b_, machine_, x, /*flushes=*/true);
}

void Calls::call_array(ir::Routine routine, ScalarType type, llvm::Value* count, llvm::Value* from,
                       llvm::Value* to) {
  if (!threads_) stay_on_thread();
  call_vml(routine, type, count, from, to);
}

void Calls::call_vml(ir::Routine routine, ScalarType type, llvm::Value* count, llvm::Value* from,
                     llvm::Value* to) {
  if (!mode_) {
    count_ = slot(b_.getInt32Ty());
    mode_ = slot(b_.getInt64Ty());
    llvm::IRBuilder<> at(prologue_->getTerminator());
    at.CreateStore(at.getInt64(kVmlMode), mode_);
  }
  auto* pointer = b_.getPtrTy();
  auto* signature =
      llvm::FunctionType::get(b_.getVoidTy(), {pointer, pointer, pointer, pointer}, false);
  auto callee = module_.getOrInsertFunction(
      name_of(routine_call(routine, type, machine_.target).symbol), signature);
  b_.CreateStore(count, count_);
  b_.CreateCall(callee, {count_, from, to, mode_})->setDoesNotThrow();
}

std::string Calls::name_of(const std::string& symbol) {
  symbols_.insert(symbol);
  return kRoutinePrefix + symbol;
}

/// From 128 elements on VML considers more threads, which takes it longer than a strip does.
void Calls::stay_on_thread() {
  if (!machine_.target.vml_threads) return;
  llvm::IRBuilder<> at(prologue_->getTerminator());
  threads_ = at.CreateCall(set_threads(), {at.getInt32(1)});
}

llvm::FunctionCallee Calls::set_threads() {
  auto* word = b_.getInt32Ty();
  return module_.getOrInsertFunction(name_of(kSetThreads),
                                     llvm::FunctionType::get(word, {word}, false));
}

void Calls::restore_threads() {
  if (threads_) b_.CreateCall(set_threads(), {threads_});
}

llvm::Value* Calls::vml(ir::Routine routine, ScalarType type, llvm::Value* x) {
  llvm::AllocaInst* in = slot(x->getType());
  llvm::AllocaInst* out = slot(x->getType());
  b_.CreateStore(x, in);
  call_vml(routine, type, b_.getInt32(lanes_in(x)), in, out);
  return b_.CreateLoad(x->getType(), out);
}

llvm::FunctionCallee Calls::pure(const std::string& symbol, llvm::Type* type, int arity) {
  std::vector<llvm::Type*> arguments(static_cast<size_t>(arity), type);
  auto callee =
      module_.getOrInsertFunction(name_of(symbol), llvm::FunctionType::get(type, arguments, false));
  auto* function = llvm::cast<llvm::Function>(callee.getCallee());
  function->setDoesNotThrow();
  function->setDoesNotAccessMemory();
  function->setWillReturn();
  return callee;
}

llvm::Value* Calls::libm(const std::string& symbol, llvm::Value* x, llvm::Value* y) {
  llvm::Type* t = x->getType();
  auto callee = pure(symbol, t->getScalarType(), y ? 2 : 1);
  auto one = [&](llvm::Value* a, llvm::Value* b) {
    return b ? b_.CreateCall(callee, {a, b}) : b_.CreateCall(callee, {a});
  };
  if (!t->isVectorTy()) return one(x, y);
  llvm::Value* result = llvm::PoisonValue::get(t);
  for (uint64_t k = 0; k < lanes_in(x); ++k) {
    llvm::Value* value =
        one(b_.CreateExtractElement(x, k), y ? b_.CreateExtractElement(y, k) : nullptr);
    result = b_.CreateInsertElement(result, value, k);
  }
  return result;
}

/// Remainders are exact, so that they have the C library's bits: unless a lane's quotient is large
/// or a number is not finite, by a division of all lanes. In a function of its own, which every
/// remainder of the module calls.
llvm::Value* Calls::fmod(const std::string& symbol, llvm::Value* x, llvm::Value* y) {
  auto* type = llvm::cast<FixedVectorType>(x->getType());
  const std::string name = "graft." + symbol + "." + std::to_string(type->getNumElements());
  llvm::Function* function = module_.getFunction(name);
  if (function == nullptr) function = make_fmod(symbol, name, type);
  return b_.CreateCall(function, {x, y});
}

/// With a = |x| >= m = |y| and the quotient's whole part q, which the division rounds up to one
/// more at most, a - q m is a multiple of the last digit of m and no larger than m: fma gives it
/// unrounded.
llvm::Function* Calls::make_fmod(const std::string& symbol, const std::string& name,
                                 FixedVectorType* type) {
  const llvm::IRBuilderBase::InsertPointGuard guard(b_);
  llvm::LLVMContext& context = module_.getContext();
  llvm::Function* made = begin_helper(b_, module_, name, type);
  auto* exact = llvm::BasicBlock::Create(context, "exact", made);
  auto* each = llvm::BasicBlock::Create(context, "each", made);
  llvm::Value *x = made->getArg(0), *y = made->getArg(1);
  llvm::Value *a = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x),
              *m = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, y);
  llvm::Value* quotient = b_.CreateFDiv(a, m);
  const double most = type->getElementType()->isFloatTy() ? 0x1p22 : 0x1p51;
  // A thread that flushes subnormal numbers may still hold some.
  auto* bits = llvm::VectorType::getInteger(type);
  llvm::Value* is_normal = b_.CreateOr(
      b_.CreateICmpEQ(b_.CreateBitCast(a, bits), llvm::Constant::getNullValue(bits)),
      b_.CreateFCmpOGE(
          a, llvm::ConstantFP::get(type, llvm::APFloat::getSmallestNormalized(
                                             type->getElementType()->getFltSemantics()))));
  llvm::Value* fits = b_.CreateAnd(b_.CreateFCmpOLT(quotient, llvm::ConstantFP::get(type, most)),
                                   b_.CreateFCmpOLT(m, llvm::ConstantFP::getInfinity(type)));
  b_.CreateCondBr(b_.CreateAndReduce(b_.CreateAnd(fits, is_normal)), exact, each);
  b_.SetInsertPoint(exact);
  llvm::Value* whole = b_.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, quotient);
  llvm::Value* rest =
      b_.CreateIntrinsic(llvm::Intrinsic::fma, {type}, {b_.CreateFNeg(whole), m, a});
  llvm::Value* negative = b_.CreateFCmpOLT(rest, llvm::Constant::getNullValue(type));
  rest = b_.CreateSelect(negative, b_.CreateFAdd(rest, m), rest);
  b_.CreateRet(b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, rest, x));
  b_.SetInsertPoint(each);
  b_.CreateRet(libm(symbol, x, y));
  return made;
}

llvm::Value* Calls::part(llvm::Value* vector, unsigned first, unsigned count) {
  std::vector<int> order;
  for (unsigned k = 0; k < count; ++k) order.push_back(static_cast<int>(first + k));
  return b_.CreateShuffleVector(vector, order);
}

llvm::Value* Calls::sleef(const RoutineCall& call, llvm::Value* x, llvm::Value* y) {
  auto native = static_cast<unsigned>(call.lanes);
  llvm::Type* t = FixedVectorType::get(x->getType()->getScalarType(), native);
  auto callee = pure(call.symbol, t, y ? 2 : 1);
  auto whole = [&](llvm::Value* a, llvm::Value* b) {
    return b ? b_.CreateCall(callee, {a, b}) : b_.CreateCall(callee, {a});
  };
  if (!x->getType()->isVectorTy()) {
    // Every lane the same: the bits are those that the vector gets.
    llvm::Value* result =
        whole(b_.CreateVectorSplat(native, x), y ? b_.CreateVectorSplat(native, y) : nullptr);
    return b_.CreateExtractElement(result, uint64_t{0});
  }
  if (lanes_in(x) == native) return whole(x, y);
  llvm::Value* low = whole(part(x, 0, native), y ? part(y, 0, native) : nullptr);
  llvm::Value* high = whole(part(x, native, native), y ? part(y, native, native) : nullptr);
  std::vector<int> order;
  for (unsigned k = 0; k < 2 * native; ++k) order.push_back(static_cast<int>(k));
  return b_.CreateShuffleVector(low, high, order);
}

}  // namespace graft::codegen
