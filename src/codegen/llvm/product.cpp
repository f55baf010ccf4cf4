// Matrix products in fp32: a tile of rows and columns lies in registers while the terms go by.
//
// Terms run in blocks, so that a block of the right operand's panel stays in the cache for all
// rows; the sums of blocks are added in order, which loses fewer digits than one long sum. What
// would be read line by line from as many pages is first copied side by side: the right operand's
// panel of columns, where many rows come to it, and the left operand's rows where those lie so.
// Operands of 16 bits are widened on that way; where the machine has an instruction for them, those
// of bf16 are copied two terms to a word unless they lie so, and multiplied so, by AMX's tiles
// where it has them.
//
// What a mask leaves out costs little: columns that nobody reads (Placed::needed) are not computed,
// and what is all zero in one operand adds nothing, unless zero times the other operand is NaN.
#include "ir/product.h"

#include <llvm/IR/IntrinsicsX86.h>

#include <optional>

#include "codegen/llvm/emitter.h"
#include "codegen/llvm/flow.h"
#include "codegen/llvm/matrix_tiles.h"
#include "codegen/llvm/product_copies.h"

namespace graft::codegen {

namespace {

/// Accumulators, and what they are made of, in half the registers (of 32) or in most (of 16).
constexpr int kRows = ir::kProductRows, kRowsOfFewRegisters = kRows / 2;
/// Terms that tiles add up before they store: they go on from what is stored, so the bits are the
/// same.
constexpr int64_t kTermsOfTiles = 2 * ir::kProductTerms;
/// Of terms that are left out the last before the first one: whole tiles, and pairs, stay so.
constexpr int64_t kFirstTerm = ir::kTileTerms;

using Zeros = ProductLayout::Zeros;

/// Writes the loops of one product.
class ProductWriter : ProductCopies {
 public:
  using ProductCopies::Operand;
  struct Sizes {
    llvm::Value *rows, *columns, *terms;  ///< columns of a panel
    llvm::Value* panels;                  ///< null: there is one
  };

  using ProductCopies::ProductCopies;

  /// Only columns whose byte is not zero are needed.
  void only(llvm::Value* needed, llvm::Value* across) { needed_ = needed, needed_across_ = across; }
  /// The left operand may be zero outside of terms [first, last); the right one is finite if that
  /// number is.
  void leave_out(llvm::Value* first, llvm::Value* last, llvm::Value* number) {
    outside_first_ = first, outside_last_ = last;
    llvm::Value* infinite = llvm::ConstantFP::getInfinity(number->getType());
    right_finite_ =
        b_.CreateFCmpOLT(b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, number), infinite);
  }
  /// Multiply with these.
  void use(MatrixTiles& tiles, llvm::Value* adding) { tiles_ = &tiles, adding_ = adding; }
  using ProductCopies::copy_to;

  /// out[rows, columns] = left[rows, terms] * right[terms, columns], where columns of `right` and
  /// `out` lie side by side.
  void write(const Operand& left, const Operand& right, const Operand& out, const Sizes& sizes) {
    left_ = left, right_ = right, out_ = out;
    rows_ = sizes.rows, columns_ = sizes.columns, panels_ = sizes.panels;
    begin_ = i64(0);
    llvm::Value* end = sizes.terms;
    if (right_finite_ != nullptr) end = inner_terms(end);
    if (layout_.panel_by_panel) return each_panel([&] { blocks_of(end); });
    blocks_of(end);
  }

 private:
  /// Begins at the first term that adds something, and returns the end of the last one, at least
  /// one after it: what is zero outside of them is asked for.
  llvm::Value* inner_terms(llvm::Value* terms) {
    llvm::Value* from = smaller(outside_first_, b_.CreateSub(terms, i64(1)));
    from = b_.CreateAnd(from, i64(-kFirstTerm));
    llvm::Value* to = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, smaller(outside_last_, terms),
                                               b_.CreateAdd(from, i64(1)));
    const auto is_zero = [&](llvm::Value* first, llvm::Value* last) {
      llvm::Value* count = b_.CreateSub(last, first);
      return b_.CreateNot(both(b_.CreateICmpSGT(count, i64(0)), [&] {
        return b_.CreateNot(
            all(Bits::Zero, left_, place(left_, i64(0), first), rows_, left_.down, count));
      }));
    };
    llvm::Value* known = both(right_finite_, [&] {
      return both(is_zero(i64(0), from), [&] { return is_zero(to, terms); });
    });
    begin_ = b_.CreateSelect(known, from, i64(0));
    return b_.CreateSelect(known, to, terms);
  }
  void blocks_of(llvm::Value* terms) {
    const int64_t most =
        left_stays() && layout_.zeros == Zeros::Computed ? kTermsOfTiles : ir::kProductTerms;
    loop(begin_, terms, most, [&](llvm::Value* first) {
      first_ = first;
      count_ = smaller(i64(most), b_.CreateSub(terms, first));
      if (layout_.zeros != Zeros::Terms) return terms_at_hand();
      only_if(b_.CreateNot(adds_nothing()), [&] { terms_at_hand(); });
    });
  }

  /// All columns of the terms at hand.
  void terms_at_hand() {
    if (layout_.zeros == Zeros::Rows) finite_ = right_is_finite();
    if (layout_.zeros == Zeros::Columns) finite_ = left_is_finite();
    if (left_copy_ == nullptr) return all_columns();
    llvm::Value* rows = rows_;
    const Operand left = left_, out = out_;
    loop(i64(0), rows, ir::kProductBlock, [&](llvm::Value* row) {
      left_.base = step(left, left.base, b_.CreateMul(row, left.down));
      out_.base = step(out, out.base, b_.CreateMul(row, out.down));
      rows_ = smaller(i64(ir::kProductBlock), b_.CreateSub(rows, row));
      copy_left();
      if (tiles_ != nullptr && layout_.zeros == Zeros::Rows) find_adding();
      all_columns();
    });
    left_ = left, out_ = out, rows_ = rows;
  }
  void all_columns() {
    each_columns([&] {
      llvm::Value* wanted = nullptr;
      if (needed_ != nullptr) {
        llvm::Type* bytes = b_.getIntNTy(static_cast<unsigned>(8 * wide()));
        llvm::Value* from = needed_;
        if (panel_ != nullptr)
          from = b_.CreateGEP(b_.getInt8Ty(), from, b_.CreateMul(panel_, needed_across_));
        llvm::Value* some = b_.CreateAlignedLoad(bytes, b_.CreateGEP(b_.getInt8Ty(), from, column_),
                                                 llvm::Align(1));
        wanted = b_.CreateICmpNE(some, llvm::ConstantInt::get(bytes, 0));
      } else if (layout_.zeros == Zeros::Columns) {
        wanted = b_.CreateNot(both(finite_, [&] {
          return all(Bits::Zero, right_, place(right_, first_, column_), count_, right_.down,
                     smaller(i64(wide()), b_.CreateSub(columns_, column_)));
        }));
      }
      if (wanted == nullptr) return all_rows();
      only_if(wanted, [&] { all_rows(); });
    });
  }

  template <class Body>
  void each_columns(Body body) {
    if (panels_ == nullptr || panel_ != nullptr) return each_of_panel(body);
    each_panel([&] { each_of_panel(body); });
  }
  template <class Body>
  void each_panel(Body body) {
    loop(i64(0), panels_, 1, [&](llvm::Value* panel) {
      panel_ = panel;
      body();
      panel_ = nullptr;
    });
  }
  /// body() for each `wide` columns, the last ones under masks.
  template <class Body>
  void each_of_panel(Body body) {
    loop(i64(0), columns_, wide(), [&](llvm::Value* column) {
      column_ = column;
      if (layout_.whole_columns) return body();
      llvm::Value* left_over = b_.CreateSub(columns_, column);
      branch(
          b_.CreateICmpSGE(left_over, i64(wide())), [&] { body(); },
          [&] {
            masks_.clear();
            for (int v = 0; v < kVectors; ++v) masks_.push_back(mask(left_over, v));
            body();
            masks_.clear();
          });
    });
  }

  /// Of the terms at hand: is the left operand zero, and zero times the right one, too? (The first
  /// terms store what there is.)
  llvm::Value* adds_nothing() {
    llvm::Value* asks = layout_.adds ? b_.getTrue() : b_.CreateICmpNE(first_, begin_);
    return both(asks, [&] {
      return both(all(Bits::Zero, left_, place(left_, i64(0), first_), rows_, left_.down, count_),
                  [&] { return right_is_finite(); });
    });
  }
  llvm::Value* right_is_finite() {
    if (right_finite_ == nullptr) return right_is_asked();
    return b_.CreateNot(
        both(b_.CreateNot(right_finite_), [&] { return b_.CreateNot(right_is_asked()); }));
  }
  llvm::Value* right_is_asked() {
    auto panel = [&] {
      if (!in_pairs())
        return all(Bits::Finite, right_, place(right_, first_, i64(0)), count_, right_.down,
                   columns_);
      Operand shorts = right_;
      shorts.dtype = shorts.type = ScalarType::BFloat16;
      return all(Bits::Finite, shorts, place(right_, first_right(), i64(0)), steps(),
                 b_.CreateShl(right_.down, 1), b_.CreateShl(columns_, 1));
    };
    if (panels_ == nullptr) return panel();
    return all_of(panels_, 1, [&](llvm::Value* index) {
      panel_ = index;
      llvm::Value* finite = panel();
      panel_ = nullptr;
      return finite;
    });
  }
  llvm::Value* left_is_finite() {
    llvm::Value* from = place(left_, i64(0), first_);
    return layout_.left_down ? all(Bits::Finite, left_, from, count_, left_.along, rows_)
                             : all(Bits::Finite, left_, from, rows_, left_.down, count_);
  }

  /// Tiles are loaded from where the left operand is.
  bool left_stays() const { return tiles_ != nullptr && left_copy_ == nullptr; }
  void all_rows() {
    if (right_copy_ != nullptr) copy_right();
    if (tiles_ != nullptr) return all_rows_in_tiles();
    const int most = machine_.target.avx512() ? kRows : kRowsOfFewRegisters;
    llvm::Value* whole = layout_.whole_rows ? rows_ : b_.CreateAnd(rows_, i64(-most));
    loop(i64(0), whole, most, [&](llvm::Value* row) { tile(row, most); });
    if (layout_.whole_rows) return;
    llvm::Value* row = whole;
    for (int count = most / 2; count > 0; count /= 2) {
      llvm::Value* there = b_.CreateAnd(rows_, i64(count));
      only_if(b_.CreateICmpNE(there, i64(0)), [&] { tile(row, count); });
      row = b_.CreateAdd(row, there);
    }
  }

  void all_rows_in_tiles() {
    constexpr int64_t kOne = MatrixTiles::kRows, kMost = MatrixTiles::kMostTiles * kOne;
    llvm::Value* whole = b_.CreateAnd(rows_, i64(-kMost));
    loop(i64(0), whole, kMost, [&](llvm::Value* row) { tile(row, kMost); });
    loop(whole, rows_, kOne, [&](llvm::Value* row) { tile(row, kOne); });
  }
  /// Rows of the copy beyond the last one are multiplied, too, and left there.
  void computed_in_tiles(llvm::Value* row, int64_t rows) {
    const bool stays = left_stays();
    llvm::Value *left = stays ? place(left_, row, first_)
                              : b_.CreateGEP(copied(), left_copy_, b_.CreateMul(row, copy_down())),
                *pitch = stays ? b_.CreateShl(left_.down, 1) : b_.CreateShl(copy_down(), 2);
    llvm::Value* right = right_at_hand();
    llvm::Value *own = tiles_->sums(), *down = i64(wide()), *left_over = b_.CreateSub(rows_, row);
    llvm::Value* begins = layout_.adds ? b_.getFalse() : b_.CreateICmpEQ(first_, begin_);
    llvm::Value* whole = masks_.empty() ? b_.CreateICmpSGE(left_over, i64(rows))
                                        : static_cast<llvm::Value*>(b_.getFalse());
    // Parts of tiles go by a whole one of our own.
    const auto each_line = [&](auto body) {
      loop(i64(0), smaller(i64(rows), left_over), 1, [&](llvm::Value* r) {
        llvm::Value* line = b_.CreateGEP(number(), own, b_.CreateMul(r, down));
        body(line, place(out_, b_.CreateAdd(row, r), column_));
      });
    };
    const auto copy_line = [&](llvm::Value* from, llvm::Value* to) {
      for (int v = 0; v < kVectors; ++v)
        memory_.store(memory_.load(at(number(), from, v), number(), off(v)), at(number(), to, v),
                      off(v));
    };
    only_if(b_.CreateNot(b_.CreateOr(whole, begins)), [&] {
      each_line([&](llvm::Value* line, llvm::Value* there) { copy_line(there, line); });
    });
    tiles_->multiply(left, pitch, right, right_copy_ ? down : right_.down, copied_steps(),
                     static_cast<int>(rows / MatrixTiles::kRows), begins,
                     b_.CreateSelect(whole, place(out_, row, column_), own),
                     b_.CreateSelect(whole, out_.down, down));
    only_if(b_.CreateNot(whole), [&] { each_line(copy_line); });
  }
  llvm::Value* adding(llvm::Value* row) {
    return b_.CreateGEP(b_.getInt8Ty(), adding_, b_.CreateUDiv(row, i64(MatrixTiles::kRows)));
  }
  /// Which tiles' rows add something, in front of the columns, each of which asks.
  void find_adding() {
    loop(i64(0), rows_, MatrixTiles::kRows, [&](llvm::Value* row) {
      llvm::Value* some =
          add_something(row, smaller(i64(MatrixTiles::kRows), b_.CreateSub(rows_, row)));
      b_.CreateStore(b_.CreateZExt(some, b_.getInt8Ty()), adding(row));
    });
  }
  /// Of rows that lie side by side.
  llvm::Value* add_something(llvm::Value* row, llvm::Value* count) {
    return b_.CreateNot(both(finite_, [&] {
      return all(Bits::Zero, left_, place(left_, row, first_), count_, left_.along, count, 1);
    }));
  }
  /// The same of tiles, as it was found.
  llvm::Value* tiles_add_something(llvm::Value* row, int rows) {
    llvm::Value* some = b_.getInt8(0);
    for (int r = 0; r < rows; r += static_cast<int>(MatrixTiles::kRows))
      some = b_.CreateOr(some, b_.CreateLoad(b_.getInt8Ty(), adding(b_.CreateAdd(row, i64(r)))));
    return b_.CreateICmpNE(some, b_.getInt8(0));
  }
  /// `count` rows from `row` on, of the columns and terms at hand.
  void tile(llvm::Value* row, int count) {
    if (layout_.zeros != Zeros::Rows) return computed(row, count);
    only_if(tiles_ ? tiles_add_something(row, count) : add_something(row, i64(count)),
            [&] { computed(row, count); });
  }
  void computed(llvm::Value* row, int rows) {
    if (tiles_ != nullptr) return computed_in_tiles(row, rows);
    llvm::SmallVector<llvm::Value*, 8> left;
    for (int r = 0; r < rows; ++r) {
      llvm::Value* at = b_.CreateAdd(row, i64(r));
      left.push_back(left_copy_ ? b_.CreateGEP(copied(), left_copy_, b_.CreateMul(at, copy_down()))
                                : place(left_, at, first_));
    }
    Operand from_left = left_, from_right = right_;
    const ScalarType type = pairs_ ? ScalarType::Int : ScalarType::Float;
    if (left_copy_) from_left = {left_copy_, copy_down(), copy_along(), nullptr, type, type};
    if (right_copy_) from_right = {right_copy_, i64(wide()), i64(1), nullptr, type, type};
    llvm::Value* right = right_at_hand();
    llvm::Value* count = steps();
    llvm::BasicBlock *before = b_.GetInsertBlock(), *run = block("terms"), *after = block("sums");
    llvm::Value* zero = llvm::Constant::getNullValue(vector());
    b_.CreateBr(run);
    b_.SetInsertPoint(run);
    llvm::PHINode* k = b_.CreatePHI(b_.getInt64Ty(), 2);
    k->addIncoming(i64(0), before);
    llvm::SmallVector<llvm::PHINode*, 16> sums;
    for (int n = 0; n < rows * kVectors; ++n) {
      sums.push_back(b_.CreatePHI(vector(), 2));
      sums.back()->addIncoming(zero, before);
    }
    llvm::SmallVector<llvm::Value*, kVectors> columns;
    llvm::Value* from = step(from_right, right, b_.CreateMul(k, from_right.down));
    if (panel_ != nullptr && right_copy_ == nullptr) fetch(from_right, from);
    for (int v = 0; v < kVectors; ++v)
      columns.push_back(pairs_ ? raw(from_right, from, v, nullptr)
                               : load(from_right, from, v, off(v)));
    llvm::SmallVector<llvm::Value*, 16> next;
    for (int r = 0; r < rows; ++r) {
      llvm::Value* one = b_.CreateLoad(
          element(from_left),
          step(from_left, left[static_cast<size_t>(r)], b_.CreateMul(k, from_left.along)));
      if (!pairs_) one = widened(from_left, one);
      llvm::Value* spread = b_.CreateVectorSplat(static_cast<unsigned>(machine_.lanes), one);
      for (int v = 0; v < kVectors; ++v)
        next.push_back(multiply_add(spread, columns[static_cast<size_t>(v)],
                                    sums[static_cast<size_t>(r * kVectors + v)]));
    }
    for (size_t n = 0; n < sums.size(); ++n) sums[n]->addIncoming(next[n], run);
    llvm::Value* then = b_.CreateNSWAdd(k, i64(1));
    k->addIncoming(then, run);
    b_.CreateCondBr(b_.CreateICmpSLT(then, count), run, after);
    b_.SetInsertPoint(after);
    // The first terms store, unless something is there already, and the others add.
    if (layout_.adds) return store(row, rows, next, true);
    branch(
        b_.CreateICmpEQ(first_, begin_), [&] { store(row, rows, next, false); },
        [&] { store(row, rows, next, true); });
  }

  /// Asks for the same place of what comes next: the next block of terms, which lies behind this
  /// one, or the next panel.
  void fetch(const Operand& x, llvm::Value* from) {
    llvm::Value* block =
        layout_.panel_by_panel ? i64(ir::kProductTerms * ir::kMostProductColumns) : x.across;
    for (int v = 0; v < kVectors; ++v) {
      llvm::Value* next = step(x, from, b_.CreateAdd(block, i64(v * machine_.lanes)));
      constexpr uint32_t kRead = 0, kSecondCache = 2, kData = 1;
      b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {next->getType()},
                         {next, b_.getInt32(kRead), b_.getInt32(kSecondCache), b_.getInt32(kData)});
    }
  }

  llvm::Value* multiply_add(llvm::Value* a, llvm::Value* b, llvm::Value* sum) {
    if (pairs_) {
      llvm::Type* shorts = llvm::FixedVectorType::get(llvm::Type::getBFloatTy(b_.getContext()),
                                                      2 * static_cast<unsigned>(machine_.lanes));
      return b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512, {},
                                {sum, b_.CreateBitCast(a, shorts), b_.CreateBitCast(b, shorts)});
    }
    if (machine_.target.fma)
      return b_.CreateIntrinsic(llvm::Intrinsic::fma, {vector()}, {a, b, sum});
    return b_.CreateFAdd(sum, b_.CreateFMul(a, b));
  }

  void store(llvm::Value* row, int count, const llvm::SmallVectorImpl<llvm::Value*>& sums,
             bool adds) {
    for (int r = 0; r < count; ++r) {
      llvm::Value* to = place(out_, b_.CreateAdd(row, i64(r)), column_);
      for (int v = 0; v < kVectors; ++v) {
        llvm::Value* sum = sums[static_cast<size_t>(r * kVectors + v)];
        if (adds) sum = b_.CreateFAdd(memory_.load(at(number(), to, v), number(), off(v)), sum);
        memory_.store(sum, at(number(), to, v), off(v));
      }
    }
  }

  llvm::Value *needed_ = nullptr, *needed_across_ = nullptr;
  Operand out_{};
  llvm::Value* adding_ = nullptr;  ///< by tile of rows: a byte
  llvm::Value *columns_ = nullptr, *panels_ = nullptr;
  llvm::Value* begin_ = nullptr;  ///< the first of all terms that are added
  llvm::Value *outside_first_ = nullptr, *outside_last_ = nullptr;
  llvm::Value* right_finite_ = nullptr;  ///< null: not known
  llvm::Value* finite_ = nullptr;        ///< is the operand that zeros may be multiplied with?
};

}  // namespace

void Emitter::product(int p) {
  const StatementLayout& s = laid_out(p);
  const ProductLayout& product = *s.product;
  auto along = [&](int access, int var) {
    const auto shape = static_cast<size_t>(layout_.accesses[static_cast<size_t>(access)].shape);
    return stride(layout_.shapes[shape].strides[static_cast<size_t>(var)]);
  };
  auto size = [&](int var) {
    return layout_.extent[static_cast<size_t>(var)] < 0 ? i64(1) : extent(var);
  };
  auto operand = [&](int access, int down, int side) {
    return ProductWriter::Operand{pointer(access, at_depth_), along(access, down),
                                  along(access, side)};
  };
  const int l = s.loads[product.left].access, r = s.loads[product.right].access, o = s.store.access;
  ProductWriter::Operand left = operand(l, product.rows, product.terms),
                         right = operand(r, product.terms, product.columns),
                         out = operand(o, product.rows, product.columns);
  right.along = out.along = i64(1);
  left.dtype = product.left_dtype, left.type = product.left_type;
  right.dtype = product.right_dtype, right.type = product.right_type;
  llvm::Value* terms = size(product.terms);
  const bool in_pairs = product.in_pair >= 0;
  if (in_pairs) {  // words
    right.dtype = right.type = ScalarType::Int;
    right.down = b_.CreateLShr(right.down, 1);
    left.along = along(l, product.in_pair);
    terms = b_.CreateShl(terms, 1);
  }
  ProductWriter writer(b_, machine_, memory_, arithmetic_, fn_, product);
  llvm::Value* panels = product.panels < 0 ? nullptr : size(product.panels);
  if (panels != nullptr)
    right.across = b_.CreateLShr(along(r, product.panels), in_pairs ? 1 : 0),
    out.across = along(o, product.panels);
  if (product.needed >= 0) {
    const int n = s.loads[static_cast<size_t>(product.needed)].access;
    writer.only(pointer(n, at_depth_), panels ? along(n, product.panels) : nullptr);
  }
  if (product.outside && product.zeros == Zeros::Terms) {
    const auto value = [&](int load, llvm::Type* type) {
      return b_.CreateLoad(type, pointer(s.loads[static_cast<size_t>(load)].access, at_depth_));
    };
    writer.leave_out(value(product.outside->first, b_.getInt64Ty()),
                     value(product.outside->last, b_.getInt64Ty()),
                     value(product.outside->finite, b_.getFloatTy()));
  }
  auto copy = [&](int slot) {
    return slot < 0 ? nullptr : b_.CreateGEP(b_.getInt8Ty(), scratch_, integer(slot));
  };
  const bool in_tiles = product.pairs && machine_.target.tiles(ScalarType::BFloat16),
             stays = in_tiles && product.left_in_tiles;
  writer.copy_to(stays ? nullptr : copy(product.left_copy), copy(product.right_copy));
  std::optional<MatrixTiles> tiles;
  if (in_tiles) {
    const auto room = [&](int64_t bytes) { return stack(b_.getInt8Ty(), i64(bytes), 64); };
    llvm::Value *own = room(64), *others = room(64);
    tiles.emplace(b_, fn_, own, others,
                  room(MatrixTiles::kMostTiles * MatrixTiles::kRows * MatrixTiles::kColumns * 4));
    writer.use(*tiles, room(ir::kProductBlock / MatrixTiles::kRows));
    tiles->begin();
  }
  writer.write(left, right, out, {size(product.rows), size(product.columns), terms, panels});
  if (tiles) tiles->end();
}

}  // namespace graft::codegen
