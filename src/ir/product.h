// Matrix products among statements: a sum in fp32 over one axis of the products of two loads, which
// may be of 16 bits, widened.
//
//     [a:8,b:512,c:512,d:64] %4[a*262144+b*512+c] f32 = reduced
//         reduced = sum.f32{d} (%0[a*32768+b*64+d] * %1[a*32768+d*512+c])
//
// In a kernel one routine computes it (Placed::product); run as loops it has the same meaning, but
// for the order of the sum. The only other sums in fp32 are products of a few rows, which stay
// loops.
#pragma once

#include <optional>
#include <vector>

#include "ir/program.h"

namespace graft::ir {

/// Rows that the routine works on at a time, and columns at most: it is fastest with multiples.
inline constexpr int64_t kProductRows = 8, kMostProductColumns = 32;
inline constexpr int64_t kFewestProductColumns = 16;
/// From so many rows on, a product whose right operand is held in panels reads these: few rows do
/// as fast as many.
inline constexpr int64_t kFewestHeldRows = 5;
/// Terms that it adds up before it adds them to what earlier ones made, and rows of a block at
/// most.
inline constexpr int64_t kProductTerms = 128, kProductBlock = 64;
/// Rows and terms that AMX's instruction takes: it adds up the first terms of pairs and the second
/// ones, then those two sums.
inline constexpr int64_t kTileRows = 16, kTileTerms = 32;

/// What the axes of a product are to it. Where an operand is broadcast along an axis of the batch,
/// that is a row or a column, too.
struct ProductAxes {
  size_t left = 0, right = 0;  ///< into Statement::loads
  /// What the factors are rounded to before they are multiplied; else their own dtypes.
  ScalarType left_type = ScalarType::Float, right_type = ScalarType::Float;
  std::vector<size_t> batch, rows, columns;
  size_t terms = 0;
  /// Which one of two terms, where pairs of them lie side by side in the right operand, column by
  /// column, as instructions take them; `terms` is the axis of pairs then.
  std::optional<size_t> in_pair = {};
  /// Of the right operand, along columns that lie side by side.
  int64_t column_stride() const { return in_pair ? 2 : 1; }
};
std::optional<ProductAxes> product_axes(const Statement& s);
/// Is it for the routine? (A sum of a few rows may look alike.)
inline bool is_product(const Statement& s) {
  return s.product && product_axes(s).has_value();
}

/// Matrices of few terms whose products are loops, as ATen's routine is asked for them.
struct FewTerms {
  ScalarType dtype = ScalarType::Float;
  bool batched = false, adds = false;  ///< of batches; to a tensor
  int64_t rows = 1, terms = 1, columns = 1;
  bool left_turned = false, right_turned = false;  ///< transposed in memory
  auto operator<=>(const FewTerms&) const = default;
};
/// In what order the routine adds them up.
struct TermOrder {
  bool fused = true;        ///< by multiply-adds, else each product is rounded
  bool from_added = false;  ///< it begins with what they are added to
};

}  // namespace graft::ir
