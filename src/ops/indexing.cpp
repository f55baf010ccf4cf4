#include "ops/indexing.h"

#include <algorithm>

#include "ops/reduce.h"
#include "ops/schema.h"

namespace graft::ops {

namespace {

using c10::ScalarType;
using ir::StatementBuilder;
using ir::Value;
using ir::View;

View without_ones(const View& view) {
  View kept = view;
  kept.sizes.clear();
  kept.strides.clear();
  for (size_t d = 0; d < view.sizes.size(); ++d)
    if (view.sizes[d] != 1)
      kept.sizes.push_back(view.sizes[d]), kept.strides.push_back(view.strides[d]);
  return kept;
}

}  // namespace

std::vector<int64_t> broadcast(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  std::vector<int64_t> sizes = a.size() < b.size() ? b : a;
  const std::vector<int64_t>& other = a.size() < b.size() ? a : b;
  for (size_t k = 0; k < other.size(); ++k) {
    int64_t& size = sizes[sizes.size() - 1 - k];
    if (size == 1) size = other[other.size() - 1 - k];
  }
  return sizes;
}

bool Indexing::touches_nothing() const {
  return ir::numel(axes) == 0 &&
         std::any_of(coordinates.begin(), coordinates.end(), [](const Coordinate& coordinate) {
           return coordinate.axis < 0 && ir::numel(coordinate.index.sizes) != 0;
         });
}

bool Indexing::check(Context& ctx) const {
  for (size_t d = 0; d < coordinates.size(); ++d) {
    if (coordinates[d].axis >= 0) continue;
    View index = without_ones(coordinates[d].index);
    int64_t size = self.sizes[d];
    if (ctx.is_within(index, wrap ? -size : 0, size - 1)) continue;
    bool possible = ctx.check(index.sizes, [&](StatementBuilder& s) {
      Value i = s.load(index).to(ScalarType::Long);
      Value lowest = wrap ? s.scalar(-size, ScalarType::Long) : s.integer(0, ScalarType::Long);
      return lt(i, lowest) | ge(i, s.scalar(size, ScalarType::Long));
    });
    if (!possible) return false;
    ctx.lies_within(index, wrap ? -size : 0, size - 1);
  }
  return true;
}

ir::Access Indexing::access(StatementBuilder& s) const {
  ir::Access access = ir::access_of({self.storage, self.dtype, self.byte_offset, {}, {}}, axes);
  for (size_t d = 0; d < coordinates.size(); ++d) {
    int axis = coordinates[d].axis;
    if (axis >= 0) {
      if (axes[static_cast<size_t>(axis)] > 1)
        access.strides[static_cast<size_t>(axis)] += self.strides[d];
      continue;
    }
    Value i = s.load(coordinates[d].index).to(ScalarType::Long);
    if (wrap)
      i = select(lt(i, s.integer(0, ScalarType::Long)),
                 i + s.scalar(self.sizes[d], ScalarType::Long), i);
    access.indirect.push_back({i.id, self.strides[d], self.sizes[d]});
  }
  return access;
}

bool Indexing::reads(const View& out) const {
  return std::any_of(coordinates.begin(), coordinates.end(),
                     [&](const Coordinate& c) { return c.axis < 0 && overlaps(c.index, {out}); });
}

namespace {

/// The view broadcast to `axes`, with those from `first` on as one in front; empty where it cannot.
std::optional<View> turned(const View& view, const std::vector<int64_t>& axes, size_t first,
                           size_t count) {
  View whole = view;
  ir::Access access = ir::access_of({0, view.dtype, 0, view.sizes, view.strides}, axes);
  whole.sizes = {1};
  whole.strides = {0};
  for (size_t a = first + count; a-- > first;) {
    if (axes[a] == 1) continue;
    if (whole.sizes[0] == 1) whole.strides[0] = access.strides[a];
    if (access.strides[a] != whole.strides[0] * whole.sizes[0]) return std::nullopt;
    whole.sizes[0] *= axes[a];
  }
  for (size_t a = 0; a < axes.size(); ++a) {
    if (a >= first && a < first + count) continue;
    whole.sizes.push_back(axes[a]);
    whole.strides.push_back(access.strides[a]);
  }
  return whole;
}

}  // namespace

bool Indexing::to_front(size_t first, size_t count, std::vector<View*> also) {
  for (Coordinate& coordinate : coordinates)
    if (coordinate.axis < 0) also.push_back(&coordinate.index);
  std::vector<View> views;
  for (const View* view : also) {
    std::optional<View> made = turned(*view, axes, first, count);
    if (!made) return false;
    views.push_back(std::move(*made));
  }
  for (size_t k = 0; k < also.size(); ++k) *also[k] = std::move(views[k]);
  std::vector<int64_t> now{1};
  for (size_t a = 0; a < axes.size(); ++a)
    if (a >= first && a < first + count)
      now[0] *= axes[a];
    else
      now.push_back(axes[a]);
  axes = std::move(now);
  for (Coordinate& coordinate : coordinates)
    if (coordinate.axis >= 0)
      coordinate.axis +=
          static_cast<size_t>(coordinate.axis) < first ? 1 : 1 - static_cast<int>(count);
  return true;
}

std::vector<const record::TensorInfo*> given_indices(const Context& ctx,
                                                     const record::OperatorRecord& op) {
  std::vector<const record::TensorInfo*> indices;
  for (const int id : op.inputs[1].tensors) {
    const record::TensorInfo* index =
        id < 0 ? nullptr : &ctx.trace.tensors[static_cast<size_t>(id)];
    const bool is_undefined = index != nullptr && index->storage < 0 && !index->constant;
    indices.push_back(is_undefined ? nullptr : index);
  }
  return indices;
}

View without_front(View view, size_t rank) {
  while (view.sizes.size() > rank && view.sizes[0] == 1) {
    view.sizes.erase(view.sizes.begin());
    view.strides.erase(view.strides.begin());
  }
  return view;
}

std::optional<Subscript> read_subscript(Context& ctx, const record::OperatorRecord& op) {
  const View& self = ctx.tensor(op, 0);
  if (self.storage < 0 || op.inputs.size() < 2) return std::nullopt;
  size_t rank = self.sizes.size();
  std::vector<std::optional<View>> indices(rank);
  const std::vector<const record::TensorInfo*> given = given_indices(ctx, op);
  if (given.size() > rank) return std::nullopt;
  std::vector<int64_t> shape;
  std::vector<size_t> places;
  for (size_t d = 0; d < given.size(); ++d) {
    if (given[d] == nullptr) continue;
    const record::TensorInfo& index = *given[d];
    if (index.storage < 0 || (index.dtype != ScalarType::Long && index.dtype != ScalarType::Int))
      return std::nullopt;
    indices[d] = index;
    shape = broadcast(shape, index.sizes);
    places.push_back(d);
  }
  if (places.empty()) return std::nullopt;
  bool neighbours = places.back() - places.front() + 1 == places.size();
  Subscript result;
  Indexing& indexing = result.indexing;
  indexing.self = self;
  indexing.wrap = true;
  indexing.coordinates.resize(rank);
  result.first = neighbours ? places.front() : 0;
  result.count = shape.size();
  for (size_t d = 0; d < rank; ++d) {
    if (d == result.first && neighbours)
      indexing.axes.insert(indexing.axes.end(), shape.begin(), shape.end());
    if (d == 0 && !neighbours) indexing.axes = shape;
    if (indices[d]) continue;
    indexing.coordinates[d].axis = static_cast<int>(indexing.axes.size());
    indexing.axes.push_back(self.sizes[d]);
  }
  for (size_t d : places)
    indexing.coordinates[d].index =
        with_rank(*indices[d], 0, indexing.axes.size() - result.first - result.count);
  return result;
}

Indexing along_dimension(const View& self, const View& index, size_t dim,
                         const std::vector<int64_t>& axes) {
  Indexing indexing{self, axes, {}, false};
  for (size_t d = 0; d < self.sizes.size(); ++d)
    indexing.coordinates.push_back(d == dim ? Coordinate{-1, index}
                                            : Coordinate{static_cast<int>(d)});
  return indexing;
}

Indexing select_dimension(const View& self, const View& index, size_t dim) {
  std::vector<int64_t> axes = self.sizes;
  View list = at_least_1d(index);
  axes[dim] = list.sizes[0];
  return along_dimension(self, with_rank(list, 0, self.sizes.size() - 1 - dim), dim, axes);
}

}  // namespace graft::ops
