// What two steps of a loop must have in common: the statements' structure, and the layouts of what
// a step makes for itself.
#pragma once

#include <c10/util/SmallVector.h>

#include <cstdint>
#include <vector>

#include "ir/program.h"

namespace graft::passes {

/// May the node's number differ from step to step? (It is an index constant.)
bool advances(const ir::Node& node);
/// A hash of the structure. Strides are not part of it: an axis of one point has any. Never 0.
uint64_t structure_of(const ir::Statement& s);
/// Are these one statement at two steps, as far as structure goes?
bool alike(const ir::Statement& s, const ir::Statement& t);
/// 0: the store; otherwise load k - 1.
inline const ir::Access& access_at(const ir::Statement& s, size_t k) {
  return k == 0 ? s.store : s.loads[k - 1];
}

/// Accesses to the storages that a step alone uses, at step 0 and at another one. Their strides
/// may differ: a contiguous temporary of a shrinking size takes the layout that it has at step 0.
struct Relaid {
  struct Axis {
    int64_t first, now, first_extent, extent;  ///< strides and extents
  };
  struct Use {
    ir::ScalarType dtype;
    int64_t offset;
    c10::SmallVector<Axis, 4> axes;
  };
  std::vector<std::vector<Use>> uses;  ///< by the storage's label

  /// Do all accesses of each storage see the same element at the same place of the new layout?
  /// `changed` gets the labels whose layout is new.
  bool consistent(std::vector<int>& changed) const;
};

}  // namespace graft::passes
