// Addresses that come from data: what reads and writes by index share.
#pragma once

#include <optional>
#include <vector>

#include "ops/context.h"

namespace graft::ops {

/// How one dimension of the indexed tensor is addressed: by an axis of the statement, or by a
/// tensor of indices whose sizes broadcast to the statement's axes.
struct Coordinate {
  int axis = -1;
  ir::View index = {};
};

/// Why such an operator is extern.
inline constexpr const char* kNothing = "indices into an empty part, which eager may check";

/// self[coordinates] over `axes`.
struct Indexing {
  ir::View self;
  std::vector<int64_t> axes;
  std::vector<Coordinate> coordinates;  ///< one a dimension of self
  bool wrap = false;                    ///< -1 is the last element; otherwise eager raises

  /// Are there indices though no element is touched? Eager checks some of those, some not.
  bool touches_nothing() const;
  /// Emits the checks that eager makes. False: they cannot come before the first visible store.
  bool check(Context& ctx) const;
  ir::Access access(ir::StatementBuilder& s) const;
  /// Could storing to `out` change an index that is still to be read?
  bool reads(const ir::View& out) const;
};

/// The axes of self[indices] and how they are addressed (NumPy's rule: where all indexed dimensions
/// are neighbours the broadcast indices stand in their place, otherwise in front). Empty: a mask,
/// or an index without memory. `first`, `count`: which axes are the indices' own.
struct Subscript {
  Indexing indexing;
  size_t first = 0, count = 0;
};
std::optional<Subscript> read_subscript(Context& ctx, const record::OperatorRecord& op);

/// gather's and scatter's rule: axis d addresses dimension d, except that `index` addresses `dim`.
Indexing along_dimension(const ir::View& self, const ir::View& index, size_t dim,
                         const std::vector<int64_t>& axes);
/// index_select's rule: the one-dimensional `index` stands at `dim`.
Indexing select_dimension(const ir::View& self, const ir::View& index, size_t dim);

std::vector<Row> store_rows();  // index_store.cpp: scatter, index_put, index_copy, index_fill

}  // namespace graft::ops
