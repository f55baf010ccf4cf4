// Addresses that come from data: shared by operators that read and write by index.
#pragma once

#include <optional>
#include <vector>

#include "ops/context.h"

namespace graft::ops {

/// Why an index is left to ATen where its check cannot come first.
inline constexpr const char* kTooLate = "its bounds check would come after a visible store";

/// How one dimension of the indexed tensor is addressed: by an axis of the statement, or by a
/// tensor of indices whose sizes broadcast to the statement's axes.
struct Coordinate {
  int axis = -1;
  ir::View index = {};
};

/// What two shapes broadcast to.
std::vector<int64_t> broadcast(const std::vector<int64_t>& a, const std::vector<int64_t>& b);

/// Why an operator that touches_nothing() is extern.
inline constexpr const char* kNothing = "indices into an empty part, which eager may check";

/// self[coordinates] over `axes`.
struct Indexing {
  ir::View self;
  std::vector<int64_t> axes;
  std::vector<Coordinate> coordinates;  ///< one per dimension of self
  bool wrap = false;                    ///< -1 is the last element; otherwise eager raises

  /// Are there indices though no element is addressed? Eager checks some of those and not others.
  bool touches_nothing() const;
  /// Emits the checks that eager makes. False: they would come after a visible store
  /// (Context::check).
  bool check(Context& ctx) const;
  ir::Access access(ir::StatementBuilder& s) const;
  /// Could storing to `out` change an index that is still to be read?
  bool reads(const ir::View& out) const;
  /// Makes one axis of `count` of them from `first` on, which no coordinate names, and puts it in
  /// front; likewise in `also`, views over the axes. False, with nothing changed: the memory of
  /// some index or view does not run through these axes evenly.
  bool to_front(size_t first, size_t count, std::vector<ir::View*> also);
};

/// What index and index_put are given for each of the first dimensions; null: all of that one.
std::vector<const record::TensorInfo*> given_indices(const Context& ctx,
                                                     const record::OperatorRecord& op);

/// The axes of self[indices] and how they are addressed, by NumPy's rule: where all indexed
/// dimensions are neighbours, the axes of the broadcast indices stand in their place, otherwise in
/// front. `first`, `count`: the position and number of those axes.
struct Subscript {
  Indexing indexing;
  size_t first = 0, count = 0;
};
/// Empty when an index is a mask or has no memory.
std::optional<Subscript> read_subscript(Context& ctx, const record::OperatorRecord& op);

/// gather's and scatter's rule: axis d addresses dimension d, except that `index` addresses `dim`.
Indexing along_dimension(const ir::View& self, const ir::View& index, size_t dim,
                         const std::vector<int64_t>& axes);
/// index_select's rule: the one-dimensional `index` stands at `dim`.
Indexing select_dimension(const ir::View& self, const ir::View& index, size_t dim);

/// Dimensions of 1 in front are left out while there are more than `rank`: they broadcast.
ir::View without_front(ir::View view, size_t rank);

/// index_put through one mask, each place of which gets the same (rows of) values; nothing: it is
/// another.
std::optional<Fate> masked_put(Context& ctx, const record::OperatorRecord& op);

std::vector<Row> store_rows();     // index_store.cpp: scatter, index_put, index_copy, index_fill
std::vector<Row> search_rows();    // search.cpp: bucketize, searchsorted
std::vector<Row> counting_rows();  // counting.cpp: bincount, histc

}  // namespace graft::ops
