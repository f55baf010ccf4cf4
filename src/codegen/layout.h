// What of a kernel is structure and what is a launch argument: the one walk behind bind() and code
// generation.
//
// Structural: the tree, every node with its type and constants, which accesses are equal, share a
// storage or share their strides, and for each access and variable whether the stride is 0, 1, -1
// or another. A variable of extent 1 is structural too, and strides along it count as 0. All other
// extents, strides and scratch offsets are integers.
#pragma once

#include <vector>

#include "codegen/backend.h"
#include "ir/kernel.h"

namespace graft::codegen {

enum class StrideKind : uint8_t { Zero, One, MinusOne, Argument };
struct Stride {
  StrideKind kind = StrideKind::Zero;
  int slot = -1;  ///< Argument: into Binding::integers
  bool operator==(const Stride&) const = default;
};

/// Strides of one or more accesses, one a kernel variable, in elements.
struct Shape {
  std::vector<int64_t> values;
  std::vector<Stride> strides;
};

/// The affine part of an access. Equal ones are one.
struct AffineAccess {
  int storage = -1;  ///< the kernel's own number of the storage, in order of appearance
  ir::ScalarType dtype = ir::ScalarType::Float;
  int shape = -1;
  int pointer = -1;  ///< into Binding::pointers; -1: in scratch
  int scratch = -1;  ///< into Binding::integers: byte offset in the scratch block
  int64_t byte_offset = 0;
  int vectors = 0;  ///< ir::Scratch::vectors
};

struct IndirectPart {
  ir::NodeId index = -1;
  Stride stride;
};
struct AccessUse {
  int access = -1;  ///< into Layout::accesses
  std::vector<IndirectPart> indirect;
};
struct StatementLayout {
  AccessUse store;
  std::vector<AccessUse> loads;
  bool streamed = false;     ///< Placed::streamed
  bool transposed = false;   ///< Placed::transposed
  std::vector<int> scalars;  ///< its slots in Binding::scalars; equal values share one
  /// A reduction whose accumulators are one a value of a Vector variable that runs inside its
  /// reduced loops: integer slot of their byte offset in the scratch block; -1: they live in
  /// registers.
  int array = -1;
};

enum class RangeKind : uint8_t {
  Flattened,  ///< iterations of the Range variables
  Elements,   ///< elements of the one top-level Vector loop
  Once,
};

struct Layout {
  std::vector<int> extent;     ///< a variable: slot in Binding::integers; -1: its extent is 1
  std::vector<Stride> growth;  ///< a variable: of its extent, a step of Variable::step
  std::vector<Shape> shapes;
  std::vector<AffineAccess> accesses;
  std::vector<StatementLayout> statements;
  int storages = 0;
  RangeKind range = RangeKind::Once;
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
