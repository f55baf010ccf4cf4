// What a matrix product copies of its operands in front of its loops: rows of the left one, and a
// panel of the right one's columns, side by side.
#pragma once

#include "codegen/llvm/matrix_tiles.h"
#include "codegen/llvm/product_operands.h"
#include "codegen/llvm/transpose.h"
#include "ir/product.h"

namespace graft::codegen {

// Copies have room for whole tiles.
static_assert(ir::kProductTerms % MatrixTiles::kTerms == 0 &&
              ir::kProductBlock % MatrixTiles::kRows == 0);

class ProductCopies : protected ProductOperands {
 public:
  ProductCopies(Builder& b, const Machine& machine, VectorMemory& memory, Arithmetic& arithmetic,
                llvm::Function* fn, const ProductLayout& layout)
      : ProductOperands(b, machine, memory, arithmetic, fn),
        layout_(layout),
        pairs_(layout.pairs && machine.target.pairs(ScalarType::BFloat16)) {}

  /// Where copies of the operands go; null: they stay where they are.
  void copy_to(llvm::Value* left, llvm::Value* right) { left_copy_ = left, right_copy_ = right; }

 protected:
  int64_t wide() const { return int64_t{kVectors} * machine_.lanes; }
  llvm::Value* off(int v) const {
    return masks_.empty() ? nullptr : masks_[static_cast<size_t>(v)];
  }
  /// What is copied, and multiplied, at a time: terms, or pairs of them.
  llvm::Value* steps() {
    return pairs_ ? b_.CreateLShr(b_.CreateAdd(count_, i64(1)), i64(1)) : count_;
  }
  /// The first of the terms at hand, in the right operand: in pairs there, perhaps.
  llvm::Value* first_right() { return in_pairs() ? b_.CreateLShr(first_, 1) : first_; }
  bool in_pairs() const { return layout_.in_pair >= 0; }
  /// The columns at hand, of the terms at hand.
  llvm::Value* right_at_hand() {
    return right_copy_ ? right_copy_ : place(right_, first_right(), column_);
  }
  /// … with zeros behind them, for whole tiles.
  llvm::Value* copied_steps() {
    if (tiles_ == nullptr) return steps();
    return b_.CreateAnd(b_.CreateAdd(steps(), i64(MatrixTiles::kTerms / 2 - 1)),
                        i64(-MatrixTiles::kTerms / 2));
  }
  llvm::Type* copied() { return pairs_ ? b_.getInt32Ty() : number(); }
  /// From row to row, and from step to step, of the left operand's copy.
  bool rows_side_by_side() const { return layout_.left_down && tiles_ == nullptr; }
  llvm::Value* copy_down() { return i64(rows_side_by_side() ? 1 : kLeftCopyPitch); }
  llvm::Value* copy_along() { return i64(rows_side_by_side() ? ir::kProductBlock : 1); }
  /// All rows of the terms at hand, along what lies side by side.
  void copy_left() {
    const bool down = layout_.left_down;
    if (down && pairs_) return tiles_ ? copy_left_turned() : copy_left_in_pairs();
    loop(i64(0), down ? count_ : rows_, 1, [&](llvm::Value* line) {
      llvm::Value* to =
          b_.CreateGEP(copied(), left_copy_, b_.CreateMul(line, down ? copy_along() : copy_down()));
      llvm::Value* many = down ? rows_ : tiles_ ? b_.CreateShl(copied_steps(), 1) : count_;
      loop(i64(0), many, machine_.lanes, [&](llvm::Value* at) {
        llvm::Value* some = mask(b_.CreateSub(down ? rows_ : count_, at), 0);
        llvm::Value* from = down ? place(left_, at, b_.CreateAdd(first_, line))
                                 : place(left_, line, b_.CreateAdd(first_, at));
        llvm::Value* x = pairs_ ? short_load(left_, from, 0, some) : load(left_, from, 0, some);
        // Of an odd number of terms the last is one of a pair, with 0.
        if (pairs_) {
          x = b_.CreateSelect(some, x, llvm::Constant::getNullValue(x->getType()));
          memory_.store(x, b_.CreateGEP(b_.getInt16Ty(), to, at), nullptr);
        } else {
          memory_.store(x, b_.CreateGEP(copied(), to, at), some);
        }
      });
    });
  }
  /// body(step, whole) for each `by` steps of the copies; whole: no term is missing.
  template <class Body>
  void each_step(int64_t by, Body body) {
    llvm::Value* whole = i64(0);
    if (pairs_) {
      whole = b_.CreateAnd(b_.CreateLShr(count_, 1), i64(-by));
      loop(i64(0), whole, by, [&](llvm::Value* step) { body(step, true); });
    }
    loop(whole, copied_steps(), by, [&](llvm::Value* step) { body(step, false); });
  }
  /// Of rows that lie side by side, and do so in the copy.
  void copy_left_in_pairs() {
    each_step(1, [&](llvm::Value* step, bool whole) {
      llvm::Value* to = b_.CreateGEP(copied(), left_copy_, b_.CreateMul(step, copy_along()));
      loop(i64(0), rows_, machine_.lanes, [&](llvm::Value* at) {
        llvm::Value* some = mask(b_.CreateSub(rows_, at), 0);
        memory_.store(pair_of_rows(step, at, some, whole), b_.CreateGEP(copied(), to, at), some);
      });
    });
  }
  /// Of rows that lie side by side: the terms of a row do so in the copy.
  void copy_left_turned() {
    each_step(machine_.lanes, [&](llvm::Value* first, bool whole) {
      loop(i64(0), rows_, machine_.lanes, [&](llvm::Value* at) {
        llvm::Value* some = mask(b_.CreateSub(rows_, at), 0);
        llvm::SmallVector<llvm::Value*, 16> square;
        for (int k = 0; k < machine_.lanes; ++k)
          square.push_back(pair_of_rows(b_.CreateAdd(first, i64(k)), at, some, whole));
        transpose(b_, machine_.lanes, square);
        llvm::Value* to =
            b_.CreateGEP(copied(), left_copy_, b_.CreateAdd(b_.CreateMul(at, copy_down()), first));
        for (int r = 0; r < machine_.lanes; ++r)
          memory_.store(square[static_cast<size_t>(r)],
                        b_.CreateGEP(copied(), to, i64(r * kLeftCopyPitch)), nullptr);
      });
    });
  }
  /// A step of those at hand, of the rows from `at` on, which lie side by side.
  llvm::Value* pair_of_rows(llvm::Value* step, llvm::Value* at, llvm::Value* mask, bool whole) {
    auto term = [&](llvm::Value* k) {
      return short_load(left_, place(left_, at, b_.CreateAdd(first_, k)), 0, mask);
    };
    return pair(b_.CreateShl(step, 1), whole, term);
  }
  /// Two terms of 16 bits, from `term` of those at hand on, in a word; 0 behind the last one.
  /// Whole: both are there.
  template <class Load>
  llvm::Value* pair(llvm::Value* term, bool whole, Load load) {
    llvm::Value* last = b_.CreateSub(count_, i64(1));
    auto word = [&](llvm::Value* k) {
      llvm::Value* x = load(whole ? k : smaller(k, last));
      x = b_.CreateZExt(x, x->getType()->getWithNewBitWidth(32));
      if (whole) return x;
      return b_.CreateSelect(b_.CreateICmpSLE(k, last), x,
                             llvm::Constant::getNullValue(x->getType()));
    };
    llvm::Value* low = word(term);
    return b_.CreateOr(low, b_.CreateShl(word(b_.CreateAdd(term, i64(1))), 16));
  }
  /// The columns at hand, of the terms at hand; lanes that are off become 0.
  void copy_right() {
    each_step(1, [&](llvm::Value* step, bool whole) {
      llvm::Value* to = b_.CreateGEP(copied(), right_copy_, b_.CreateMul(step, i64(wide())));
      auto from = [&](llvm::Value* term) {
        return place(right_, b_.CreateAdd(first_, term), column_);
      };
      for (int v = 0; v < kVectors; ++v) {
        llvm::Value* x =
            pairs_
                ? pair(b_.CreateShl(step, 1), whole,
                       [&](llvm::Value* term) { return short_load(right_, from(term), v, off(v)); })
                : load(right_, from(step), v, off(v));
        memory_.store(x, at(copied(), to, v), nullptr);
      }
    });
  }

  const ProductLayout& layout_;
  const bool pairs_;
  MatrixTiles* tiles_ = nullptr;
  llvm::Value *left_copy_ = nullptr, *right_copy_ = nullptr;
  Operand left_{}, right_{};
  llvm::Value* rows_ = nullptr;
  llvm::Value *first_ = nullptr, *count_ = nullptr;  ///< terms at hand
  llvm::Value* column_ = nullptr;
  llvm::SmallVector<llvm::Value*, kVectors> masks_;  ///< empty: all columns are there
};

}  // namespace graft::codegen
