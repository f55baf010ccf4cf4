// Addresses as mixed-radix numbers: the one dependence test of Graft (docs/architecture.md, "the
// digit test").
//
// A dense store has nested strides, so each of its axes is a digit of the address. Writing another
// access's address in those digits tells which point of the store made the element that it sees.
// This needs no solver and is exact for what eager programs do; overlapping or irregular strides
// give Unknown, which every caller treats as "may meet".
#pragma once

#include <c10/util/SmallVector.h>

#include <vector>

#include "ir/program.h"

namespace graft::passes {

enum class Relation : uint8_t {
  Disjoint,  ///< they touch no common element
  Covered,   ///< the store writes every element that the access touches, at the point in `map`
  Partial,   ///< it writes those of one range of the access's axis `axis`; its border is `at`
  /// The access's axis `axis` runs over several digits: split it into (extent / at, at) and ask
  /// again.
  NeedSplit,
  Unknown,
};

/// A point of the store as a function of the access's point: index p = constant[p] + sum_a
/// coefficient(p, a) * a.
struct PointMap {
  c10::SmallVector<int64_t, 8> constant;
  c10::SmallVector<int64_t, 32> coefficients;  ///< row-major: a row per axis of the store
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

/// Which part of `access` (over `axes`) reads what `store` (over `store_axes`) writes. The store
/// must write each element once.
Overlap relate(const ir::Access& store, const std::vector<int64_t>& store_axes,
               const ir::Access& access, const std::vector<int64_t>& axes);

/// True when both statements may share a loop over axis `a` of s and axis `b` of t as far as s's
/// access x and t's access y go: iteration i of the one never meets iteration j != i of the other,
/// over all steps where they are repeated. Neither axis may be the step or one that grows.
bool same_digit(const ir::Access& x, const ir::Statement& s, size_t a, const ir::Access& y,
                const ir::Statement& t, size_t b);

/// May `access` of statement t touch an element that `x` of statement s touches, at any steps where
/// they are repeated?
bool meet(const ir::Access& x, const ir::Statement& s, const ir::Access& access,
          const ir::Statement& t);

/// Do the bounding byte ranges of two accesses of one storage intersect? (Indirect accesses touch
/// everything.)
bool may_touch(const ir::Access& x, const std::vector<int64_t>& x_axes, const ir::Access& y,
               const std::vector<int64_t>& y_axes);
bool may_touch(const ir::Access& x, const ir::Statement& s, const ir::Access& y,
               const ir::Statement& t);

}  // namespace graft::passes
