// Whether two accesses, or two views, touch the same memory: the one place that says so. Lowering,
// passes and checks ask here, and every answer errs to one side only, which its comment names.
//
// Addresses are read as mixed-radix numbers (docs/compiler.md, "the digit test"). A dense store
// has nested strides, so each of its axes is a digit of the address. Writing another access in
// those digits tells which point of the store made the element that it sees. This needs no solver
// and is exact for what eager programs do; overlapping or irregular strides give Unknown, which
// every caller treats as "may meet".
#pragma once

#include <c10/util/SmallVector.h>

#include <utility>
#include <vector>

#include "ir/program.h"

namespace graft::ir {

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
/// must write each element once. (Elements may be of two types of one size.)
Overlap relate(const Access& store, const std::vector<int64_t>& store_axes, const Access& access,
               const std::vector<int64_t>& axes);

/// True when both statements may share a loop over axis `a` of s and axis `b` of t as far as s's
/// access x and t's access y go: iteration i of the one never meets iteration j != i of the other,
/// over all steps where they are repeated. Neither axis may be the step or one that grows.
bool same_digit(const Access& x, const Statement& s, size_t a, const Access& y, const Statement& t,
                size_t b);

/// May `access` of statement t touch an element that `x` of statement s touches, at any steps where
/// they are repeated?
bool meet(const Access& x, const Statement& s, const Access& access, const Statement& t);

/// Do the bounding byte ranges of two accesses of one storage intersect? (An index of unknown
/// extent touches everything.)
bool may_touch(const Access& x, const std::vector<int64_t>& x_axes, const Access& y,
               const std::vector<int64_t>& y_axes);
bool may_touch(const Access& x, const Statement& s, const Access& y, const Statement& t);

/// Of statements of one Repeat: may they meet within a step? Accesses that move differently count
/// as meeting in one step if they do in any.
bool meet_in_step(const Access& x, const Statement& s, const Access& y, const Statement& t);
/// Likewise same_digit: true when iteration t of axis `a` never meets another iteration of `b`
/// within a step.
bool apart_in_step(const Access& x, const Statement& s, size_t a, const Access& y,
                   const Statement& t, size_t b);

/// Does `later` store wherever `s` does, whatever data it sees? In a Repeat over all its steps
/// together. False where it cannot tell.
bool overwrites(const Statement& later, const Statement& s);

/// May a point of the statement read what another of its points stores? True where it cannot tell.
bool may_read_own_stores(const Statement& s);
/// Does it surely? False where it cannot tell.
bool surely_reads_own_stores(const Statement& s);

/// The bytes that a view reaches: the first, and one past the last; [offset, offset) where it is
/// empty.
std::pair<int64_t, int64_t> byte_span(const View& view);

/// Digits of an address as (stride, extent), in any order.
using Strides = c10::SmallVector<std::pair<int64_t, int64_t>, 8>;
/// Elements spaced by `gap`, the last of them `reach` after the first. Moved by each value that the
/// digits make, do they never meet where they were for another value? False where it cannot tell.
bool apart(int64_t gap, int64_t reach, Strides digits);
/// Do the digits' values hold 0, gap, 2 gap, ... gap (count - 1)? False where it cannot tell.
bool fill(int64_t gap, int64_t count, Strides digits);

/// No two elements of the view share an address, provably: strides in order of size nest.
bool is_non_overlapping(const View& view);

/// May two views touch a common byte? False only when no byte belongs to both: exact where strides
/// nest, as those of views of dense tensors do. The halves of x[:, :64] += x[:, 64:] have bounding
/// spans that intersect, yet share no byte.
bool overlap(const View& a, const View& b);

/// Would a statement that stores `out` and reads `in`, broadcast to it, read at one point what it
/// stores at another? Reading the very element that is stored is no clash.
bool clash(const View& out, const View& in);

}  // namespace graft::ir
