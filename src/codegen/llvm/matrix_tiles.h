// AMX: products of bf16 numbers in tile registers, of 16 rows by 16 columns in fp32.
#pragma once

#include "codegen/llvm/flow.h"
#include "ir/product.h"

namespace graft::codegen {

/// Writes the instructions. Operands are of words that hold two terms each; terms come in
/// multiples of kTerms (0 beyond the last one), and columns in two tiles' width.
class MatrixTiles : Flow {
 public:
  static constexpr int64_t kRows = ir::kTileRows, kColumns = 32, kTerms = ir::kTileTerms,
                           kMostTiles = 2;

  /// `own`, `others`: 64 bytes each, of a multiple of 64; `sums`: kMostTiles * kRows rows of
  /// kColumns fp32 numbers.
  MatrixTiles(Builder& builder, llvm::Function* fn, llvm::Value* own, llvm::Value* others,
              llvm::Value* sums)
      : Flow(builder, fn), own_(own), others_(others), sums_(sums) {}

  /// Around all products: how many rows and columns tiles have is the thread's state, of which
  /// libraries that a process has beside us may count on theirs.
  void begin();
  void end();

  /// `tiles` times kRows rows, which lie `pitch` bytes apart, times the columns, whose steps of two
  /// terms lie `down` words apart. The sums go to `out`, `out_down` numbers from row to row, on
  /// top of what is there unless it `begins`.
  void multiply(llvm::Value* left, llvm::Value* pitch, llvm::Value* right, llvm::Value* down,
                llvm::Value* steps, int tiles, llvm::Value* begins, llvm::Value* out,
                llvm::Value* out_down);
  llvm::Value* sums() const { return sums_; }

 private:
  void call(llvm::Intrinsic::ID id, std::initializer_list<llvm::Value*> arguments) {
    b_.CreateIntrinsic(id, {}, arguments);
  }

  llvm::Value *own_, *others_, *sums_;
};

}  // namespace graft::codegen
