// Divides a kernel into structure and launch arguments: the one walk behind bind() and code
// generation.
//
// Structure is: the loop tree; every node with its type and constants; which accesses are equal,
// share a storage or share their strides; for each access and variable whether the stride is 0, 1,
// -1, along lanes 2, 3 or 4, or another number; which accesses are interleaved; of how few entries
// an index picks one, and whether it fits into 32 bits; which variables have extent 1 (strides
// along those count as 0); and the extents of short vector loops that start again and again. All
// other extents, strides and scratch offsets are launch arguments (Binding::integers).
#pragma once

#include <optional>
#include <vector>

#include "codegen/backend.h"
#include "ir/kernel.h"
#include "ir/product.h"

namespace graft::codegen {

/// Two, Three and Four: of Vector variables alone, whose lanes are then loaded together and
/// shuffled.
enum class StrideKind : uint8_t { Zero, One, Two, Three, Four, MinusOne, Argument };
struct Stride {
  StrideKind kind = StrideKind::Zero;
  int slot = -1;  ///< Argument: into Binding::integers
  bool operator==(const Stride&) const = default;
};

/// Elements from lane to lane where they are two to four; otherwise 0.
inline int interleave(const Stride& s) {
  switch (s.kind) {
    case StrideKind::Two:
      return 2;
    case StrideKind::Three:
      return 3;
    case StrideKind::Four:
      return 4;
    case StrideKind::Zero:
    case StrideKind::One:
    case StrideKind::MinusOne:
    case StrideKind::Argument:
      break;
  }
  return 0;
}

/// Strides of one or more accesses, one per kernel variable, in elements.
struct Shape {
  std::vector<int64_t> values;
  std::vector<Stride> strides;
};

/// The affine part of an access. Equal accesses share one entry.
struct AffineAccess {
  int storage = -1;  ///< storages are numbered in the order in which the kernel names them
  ScalarType dtype = ScalarType::Float;
  int shape = -1;
  int pointer = -1;  ///< into Binding::pointers; -1: in scratch
  int scratch = -1;  ///< into Binding::integers: byte offset in the scratch block
  int64_t byte_offset = 0;
  bool own = false;  ///< in scratch, or of a storage in ir::Kernel::own
  /// ir::Placed::ahead: iterations of `ahead_var`, for all loads that are equal to the one that
  /// asks; 0: it asks for nothing.
  int ahead = 0;
  int ahead_var = -1;
  int vectors = 0;  ///< ir::Scratch::vectors
  /// Interleaved accesses, as those to r, g and b of r, g, b, r, g, b, …: the one of the lowest
  /// place. -1: lanes lie side by side, or far apart.
  int first = -1;
  int part = 0;   ///< elements from that one's place
  int reach = 0;  ///< the largest part of these accesses
};

/// How a sum adds up whose plain additions would lose digits (ir/facts.h).
enum class Levels : uint8_t {
  None,     ///< plainly: there are so few terms
  Blocks,   ///< blocks of kBlockSteps steps, which add up plainly
  Cascade,  ///< and what adding the blocks loses adds up too
};
/// Terms of a sum, at most, that a lane adds up without levels, and lanes that there are at least.
inline constexpr int64_t kPlainTerms = 8, kFewestLanes = 8;
/// Blocks, at most, that a lane of these adds up plainly: eager's products, which sums in Float
/// are, have longer chains.
inline constexpr int64_t kPlainBlocks = 32, kBlockLanes = 32;

/// Entries of 32 bits that an index can pick from a table in registers: two vectors of them.
inline constexpr int kTableEntries = 32;

/// Elements that an index may reach to be near, and how many near ones make an offset of 32 bits.
inline constexpr int64_t kNearElements = int64_t{1} << 29;
inline constexpr size_t kNearParts = 4;

/// An integer that is never negative nor above 15, as a code of four bits: a function of it has so
/// few values that a register holds them.
struct Digit {
  ir::NodeId node = -1;
  int low_bits_of = -1;  ///< it is the low four bits of this operand
};
inline constexpr int kDigits = 16;

struct IndirectPart {
  ir::NodeId index = -1;
  Stride stride;
  /// The index picks one of so many entries that lie side by side; 0: of more, or nobody knows.
  int table = 0;
  bool near = false;  ///< index times stride stays within kNearElements
};
struct AccessUse {
  int access = -1;  ///< into Layout::accesses
  std::vector<IndirectPart> indirect;
};
/// Elements from row to row of the copied rows of a product's left operand: not a multiple of the
/// page, or rows would compete for the same places of the cache. (Rows that lie side by side stay
/// so.)
inline constexpr int64_t kLeftCopyPitch = ir::kProductTerms + 16;

/// Of a Placed::product: the variables of its nest, and its operands.
struct ProductLayout {
  int rows = -1, columns = -1, terms = -1;
  int panels = -1;   ///< the columns' outer variable; -1: they have one
  int in_pair = -1;  ///< ir::ProductAxes; -1: terms lie apart
  /// Rows come in multiples of ir::kProductRows, columns of ir::kMostProductColumns.
  bool whole_rows = false, whole_columns = false;
  size_t left = 0, right = 0;  ///< into StatementLayout::loads
  ScalarType left_dtype = ScalarType::Float, right_dtype = ScalarType::Float;
  ScalarType left_type = ScalarType::Float, right_type = ScalarType::Float;  ///< ir::ProductAxes
  int needed = -1;                                                           ///< Placed::needed
  std::optional<ir::Placed::Outside> outside;                                ///< Placed::outside
  bool adds = false;                                                         ///< Placed::adds
  /// What masks make zero in scratch is left out, if it would add nothing: blocks of terms of the
  /// left operand, tiles of its rows, or of the right one's columns.
  enum class Zeros : uint8_t { Computed, Terms, Rows, Columns } zeros = Zeros::Computed;
  /// In the left operand terms lie side by side, or rows; neither: both lie apart.
  bool left_along = false, left_down = false;
  /// It is of whole tiles of bf16 numbers, terms side by side.
  bool left_in_tiles = false;
  /// Few rows come to a right operand in panels: it is read once, in the order in which it lies.
  bool panel_by_panel = false;
  /// Both are of bf16, and multiplied two terms at a time; what does not lie so is copied.
  bool pairs = false;
  /// Slots in Binding::integers of byte offsets in the scratch block: where a block of the left
  /// operand's terms and a panel of the right one's columns are copied to. -1: they are not.
  int left_copy = -1, right_copy = -1;
};

struct StatementLayout {
  AccessUse store;
  std::vector<AccessUse> loads;
  bool streamed = false;    ///< Placed::streamed
  bool transposed = false;  ///< Placed::transposed
  int columns = 0;          ///< Placed::columns
  std::optional<ProductLayout> product;
  std::optional<ir::Placed::Quiet> quiet;  ///< Placed::quiet
  Levels levels = Levels::None;
  /// It is a sum that widens, of more products than kPlainTerms: to add them unrounded costs no
  /// bits of eager's, whose order is another one anyway.
  bool many_products = false;
  std::vector<Digit> digits;
  std::vector<int> scalars;  ///< its slots in Binding::scalars; equal values share one
  /// For a reduction with one accumulator per value of a Vector variable that runs inside its
  /// reduced loops: the slot in Binding::integers of the accumulators' byte offset in the scratch
  /// block. -1: accumulators live in registers.
  int array = -1;
};

enum class RangeKind : uint8_t {
  Flattened,  ///< iterations of the Range variables
  Elements,   ///< elements of the one top-level Vector loop
  Rows,       ///< ir::Kernel::rows
  Once,
};

struct Layout {
  std::vector<int> extent;     ///< per variable: slot in Binding::integers; -1: its extent is 1
  std::vector<int64_t> fixed;  ///< per variable: its extent, as part of the structure; 0: it is not
  std::vector<Stride> growth;  ///< per variable: Variable::growth
  std::vector<Shape> shapes;
  std::vector<AffineAccess> accesses;
  std::vector<StatementLayout> statements;
  int storages = 0;
  RangeKind range = RangeKind::Once;
  int rows = -1;  ///< RangeKind::Rows: the slot in Binding::integers of how many there are
};

/// Entries of an accumulator array for `extent` values, with room for the last vector's unused
/// lanes.
inline int64_t array_entries(int64_t extent) {
  return (extent + 63) / 64 * 64 + 64;
}

Layout lay_out(const ir::Kernel& kernel, Binding& binding);

/// Does the statement reduce (or scan) over the variable?
bool reduces_over(const ir::Placed& placed, int var);

}  // namespace graft::codegen
