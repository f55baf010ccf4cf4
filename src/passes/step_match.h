// Compares two steps of an unrolled loop: their statements must have equal structure, and their
// temporaries layouts that can be made one.
#pragma once

#include <c10/util/SmallVector.h>

#include <cstdint>
#include <vector>

#include "ir/program.h"

namespace graft::passes {

/// May the node's number differ from step to step? True for index constants.
bool advances(const ir::Node& node);
/// A hash of the structure. Strides are not part of it, since those of an axis of extent 1 may be
/// anything. Never 0.
uint64_t structure_of(const ir::Statement& s);
/// Have s and t the structure of one statement at two steps?
bool alike(const ir::Statement& s, const ir::Statement& t);
/// 0: the store; otherwise load k - 1.
inline const ir::Access& access_at(const ir::Statement& s, size_t k) {
  return k == 0 ? s.store : s.loads[k - 1];
}

/// Accesses to the storages that only one step uses, at step 0 and at another step. Their strides
/// may differ: a contiguous temporary that shrinks from step to step keeps the layout of step 0.
struct Relaid {
  struct Axis {
    int64_t first, now, first_extent, extent;  ///< strides and extents
  };
  struct Use {
    ScalarType dtype;
    int64_t offset;
    c10::SmallVector<Axis, 4> axes;
  };
  std::vector<std::vector<Use>> uses;  ///< by the storage's label

  /// Does the layout of step 0 put the same element at the same place for all accesses of each
  /// storage? `changed` gets the labels of the storages whose layout changes.
  bool consistent(std::vector<int>& changed) const;
};

}  // namespace graft::passes
