// The instructions behind expression nodes. All of it works alike on scalars and on vectors of any
// number of lanes.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/DenseSet.h>
#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/IR/IRBuilder.h>

#include "codegen/llvm/machine.h"
#include "ir/expr.h"

namespace graft::codegen {

using Builder = llvm::IRBuilder<>;

/// The type a value has in registers: i1 for Bool, the bits (i16) for BFloat16 and Half. Throws for
/// dtypes without loops.
llvm::Type* register_type(llvm::LLVMContext& context, ScalarType type);
/// The type in memory: a byte for Bool, otherwise the same.
llvm::Type* memory_type(llvm::LLVMContext& context, ScalarType type);
/// `scalar`, or a vector of it with as many lanes as `like` has.
llvm::Type* shaped(llvm::Type* scalar, llvm::Type* like);

/// The bits of a Float that a BFloat16 has.
constexpr uint64_t kBFloat16Bits = 0xffff0000;

/// `usual()` if all lanes of `usually` hold, otherwise `other()`, which is right for all lanes.
/// That one alone where values are hoisted: they go into blocks that are complete already.
llvm::Value* usual_or_other(Builder& b, llvm::Value* usually,
                            llvm::function_ref<llvm::Value*()> usual,
                            llvm::function_ref<llvm::Value*()> other);

/// function(part, its lanes) over parts of `x` of `most` lanes, or of all where it has fewer.
llvm::Value* in_parts(Builder& b, llvm::Value* x, unsigned most,
                      llvm::function_ref<llvm::Value*(llvm::Value*, unsigned)> function);

class Arithmetic {
 public:
  Arithmetic(Builder& builder, const Machine& machine) : b_(builder), machine_(machine) {}

  /// A node with operands, except Call. `operand`: the type of the first one (for Select: of the
  /// second).
  llvm::Value* node(ir::Op op, ScalarType type, ScalarType operand, llvm::Value* x, llvm::Value* y,
                    llvm::Value* z);
  llvm::Value* cast(llvm::Value* x, ScalarType from, ScalarType to);
  /// A BFloat16 of which the Float is known.
  llvm::Value* narrowed(llvm::Value* kept);
  /// Bits as a Const's payload, as a scalar of the type.
  llvm::Constant* constant(int64_t payload, ScalarType type);
  /// The scalar of that type whose bits a kernel argument (an i64) holds.
  llvm::Value* scalar(llvm::Value* bits, ScalarType type);

  /// Tells that `copy` holds in each lane what `x` holds; returns `copy`.
  llvm::Value* mark_like(llvm::Value* x, llvm::Value* copy) {
    return has_short_nan(x) ? mark_short_nan(copy) : copy;
  }

  /// Floats whose NaNs have zeros in their low half (short_nan_)?
  bool has_short_nan(llvm::Value* x) const;

  /// a > b (or a < b) as the type compares.
  llvm::Value* greater(ScalarType type, llvm::Value* a, llvm::Value* b);
  llvm::Value* less(ScalarType type, llvm::Value* a, llvm::Value* b) { return greater(type, b, a); }
  llvm::Value* is_nan(llvm::Value* x) { return b_.CreateFCmpUNO(x, x); }
  /// Largest or smallest with NaN winning; of equal values b.
  llvm::Value* extreme(bool largest, ScalarType type, llvm::Value* a, llvm::Value* b);

 private:
  llvm::Value* compute(ir::Op op, ScalarType type, llvm::Value* x, llvm::Value* y, llvm::Value* z);
  llvm::Value* divide(bool remainder, ScalarType type, llvm::Value* x, llvm::Value* y);
  llvm::Value* shift(bool left, bool is_signed, llvm::Value* x, llvm::Value* count);
  llvm::Value* compare(ir::Op op, ScalarType type, llvm::Value* x, llvm::Value* y);
  llvm::Value* float_to_bfloat16(llvm::Value* x);
  llvm::Value* float_to_byte(llvm::Value* x, ScalarType to);
  llvm::Value* widened(llvm::Value* x, llvm::Type* real);
  llvm::Value* to_float(llvm::Value* x, ScalarType from);
  llvm::Value* float_to_int(llvm::Value* x, unsigned bits);
  llvm::Value* float_to_word(llvm::Value* x);
  llvm::Value* long_to_float(llvm::Value* x, llvm::Type* real);
  llvm::Value* divide_longs(llvm::Value* x, llvm::Value* y);
  /// Integers of 64 bits that are well within 32: more than the least of these.
  llvm::Value* are_words(llvm::Value* longs);
  llvm::Value* mark_short_nan(llvm::Value* x);  ///< adds x to short_nan_; returns x
  llvm::Value* number(llvm::Type* type, double value) { return llvm::ConstantFP::get(type, value); }

  Builder& b_;
  const Machine& machine_;
  llvm::DenseMap<llvm::Value*, llvm::Value*> rounded_;  ///< each BFloat16 made: the same as a Float
  /// Floats whose NaNs have zeros in their low 16 bits: widened BFloat16s, and what instructions
  /// compute from such values alone. (The NaN an instruction gives has an operand's bits, or is the
  /// machine's default NaN, whose low bits are zero too.) Rounding those to BFloat16 needs no test
  /// for NaN.
  llvm::DenseSet<llvm::Value*> short_nan_;
};

}  // namespace graft::codegen
