#include "codegen/llvm/matrix_tiles.h"

#include <llvm/IR/IntrinsicsX86.h>

#include <array>
#include <cstring>

namespace graft::codegen {

namespace {

constexpr int64_t kWord = 4;
/// Tile registers: sums by row and column, then the left operand's rows, the right one's columns.
constexpr int kSums = 0, kLeft = 4, kRight = 6, kTilesOfColumns = 2;

/// As ldtilecfg takes it: all tiles are whole.
struct Configuration {
  uint8_t palette = 1, start_row = 0;
  std::array<uint8_t, 14> reserved = {};
  std::array<uint16_t, 16> row_bytes = {64, 64, 64, 64, 64, 64, 64, 64};
  std::array<uint8_t, 16> rows = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(Configuration) == 64);

}  // namespace

void MatrixTiles::begin() {
  call(llvm::Intrinsic::x86_sttilecfg, {others_});
  std::array<uint64_t, sizeof(Configuration) / 8> words{};
  const Configuration whole;
  std::memcpy(words.data(), &whole, sizeof whole);
  for (size_t k = 0; k < words.size(); ++k)
    b_.CreateAlignedStore(b_.getInt64(words[k]), b_.CreateConstGEP1_64(b_.getInt64Ty(), own_, k),
                          llvm::Align(8));
  call(llvm::Intrinsic::x86_ldtilecfg, {own_});
}

void MatrixTiles::end() {
  call(llvm::Intrinsic::x86_ldtilecfg, {others_});
}

void MatrixTiles::multiply(llvm::Value* left, llvm::Value* pitch, llvm::Value* right,
                           llvm::Value* down, llvm::Value* steps, int tiles, llvm::Value* begins,
                           llvm::Value* out, llvm::Value* out_down) {
  const auto tile = [&](int k) { return b_.getInt8(static_cast<uint8_t>(k)); };
  const auto word = [&](llvm::Value* from, llvm::Value* words) {
    return b_.CreateGEP(b_.getInt32Ty(), from, words);
  };
  const auto sum = [&](int r, int c) { return tile(kSums + r * kTilesOfColumns + c); };
  const int64_t columns_of_tile = kColumns / kTilesOfColumns;
  const auto each_sum = [&](auto body) {
    for (int r = 0; r < tiles; ++r)
      for (int c = 0; c < kTilesOfColumns; ++c)
        body(sum(r, c), word(out, b_.CreateAdd(b_.CreateMul(out_down, i64(r * kRows)),
                                               i64(c * columns_of_tile))));
  };
  llvm::Value* out_bytes = b_.CreateMul(out_down, i64(kWord));
  branch(
      begins,
      [&] {
        each_sum(
            [&](llvm::Value* sums, llvm::Value*) { call(llvm::Intrinsic::x86_tilezero, {sums}); });
      },
      [&] {
        each_sum([&](llvm::Value* sums, llvm::Value* there) {
          call(llvm::Intrinsic::x86_tileloadd64, {sums, there, out_bytes});
        });
      });
  loop(i64(0), steps, kTerms / 2, [&](llvm::Value* k) {
    for (int c = 0; c < kTilesOfColumns; ++c)
      call(llvm::Intrinsic::x86_tileloadd64,
           {tile(kRight + c),
            word(right, b_.CreateAdd(b_.CreateMul(k, down), i64(c * columns_of_tile))),
            b_.CreateMul(down, i64(kWord))});
    for (int r = 0; r < tiles; ++r) {
      call(llvm::Intrinsic::x86_tileloadd64,
           {tile(kLeft + r),
            b_.CreateGEP(b_.getInt8Ty(), word(left, k), b_.CreateMul(pitch, i64(r * kRows))),
            pitch});
      for (int c = 0; c < kTilesOfColumns; ++c)
        call(llvm::Intrinsic::x86_tdpbf16ps, {sum(r, c), tile(kLeft + r), tile(kRight + c)});
    }
  });
  each_sum([&](llvm::Value* sums, llvm::Value* there) {
    call(llvm::Intrinsic::x86_tilestored64, {sums, there, out_bytes});
  });
}

}  // namespace graft::codegen
