// Addresses as mixed-radix numbers: the one dependence test of Graft (docs/architecture.md, "the
// digit test").
//
// A dense store has nested strides, so each of its axes is a digit of the address. Reading another
// access in those digits tells exactly which point of the store made what the access sees. No
// solver, and exact for what eager programs do; overlapping or irregular strides come out as
// Unknown, which every caller treats as "may meet".
#pragma once

#include <c10/util/SmallVector.h>

#include <vector>

#include "ir/program.h"

namespace graft::passes {

enum class Relation : uint8_t {
  Disjoint,  ///< never touch a common element
  Covered,   ///< every element the access touches was written by the store, at the point in `map`
  Partial,   ///< only a range of the access's axis `axis` (border at `at`) is covered
  /// The access's axis `axis` runs over several digits: split it into (extent / at, at) and ask
  /// again.
  NeedSplit,
  Unknown,
};

/// A point of the store as a function of the access's point: index p = constant[p] + sum_a
/// coefficient(p, a) * a.
struct PointMap {
  c10::SmallVector<int64_t, 8> constant;
  c10::SmallVector<int64_t, 32> coefficients;  ///< row by row, one row a point of the store
  int64_t coefficient(size_t p, size_t a) const {
    return coefficients[p * (coefficients.size() / constant.size()) + a];
  }
};

struct Overlap {
  Relation relation = Relation::Unknown;
  PointMap map;   ///< Covered
  int axis = -1;  ///< Partial, NeedSplit
  int64_t at = 0;
};

/// What `access` (over `axes`) sees of `store` (over `store_axes`, which must write each element
/// once).
Overlap relate(const ir::Access& store, const std::vector<int64_t>& store_axes,
               const ir::Access& access, const std::vector<int64_t>& axes);

/// True when iteration t of axis `a` of statement s's access x never meets iteration t' != t of
/// axis `b` of statement t's access y, so that both may run in one loop; over all steps where they
/// are repeated. Neither axis may be the step or one that grows.
bool same_digit(const ir::Access& x, const ir::Statement& s, size_t a, const ir::Access& y,
                const ir::Statement& t, size_t b);

/// May `access` of statement t touch what statement s stores or loads by `x`? At whatever step
/// where they are repeated.
bool meet(const ir::Access& x, const ir::Statement& s, const ir::Access& access,
          const ir::Statement& t);

/// Bounding byte ranges of two accesses of one storage intersect (indirect accesses touch
/// everything).
bool may_touch(const ir::Access& x, const std::vector<int64_t>& x_axes, const ir::Access& y,
               const std::vector<int64_t>& y_axes);
bool may_touch(const ir::Access& x, const ir::Statement& s, const ir::Access& y,
               const ir::Statement& t);

}  // namespace graft::passes
