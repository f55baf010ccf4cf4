// Reads by index: one load whose address comes from data, after the bounds check that eager makes.
#include "ops/indexing.h"
#include "ops/reduce.h"
#include "ops/schema.h"

namespace graft::ops {

namespace {

using ir::StatementBuilder;
using ir::Value;
using ir::View;
using record::OperatorRecord;

constexpr const char* kNoMemory = "an index without memory";

/// Entries that all are loaded, at most, for one to be selected.
constexpr int64_t kFewEntries = 4;

/// The entry that the access's only index picks of a few: as they come in order, nothing depends on
/// an address from data, and what makes them need not be in memory.
Value select_entry(StatementBuilder& s, const ir::Access& access) {
  const ir::Indirect picked = access.indirect.at(0);
  const Value index{&s, picked.index};
  auto entry = [&](int64_t k) {
    ir::Access direct = access;
    direct.indirect.clear();
    direct.offset += k * picked.stride;
    return s.load(std::move(direct));
  };
  Value found = entry(picked.extent - 1);
  for (int64_t k = picked.extent - 1; k-- > 0;)
    found = ir::select(ir::eq(index, s.integer(k, index.type())), entry(k), found);
  return found;
}

/// out = self[indexing]; `out` has the indexing's axes.
Fate read(Context& ctx, const Indexing& indexing, const View& out, bool may_select = false) {
  if (indexing.self.storage < 0) return Fate::external("a tensor without memory");
  for (const Coordinate& coordinate : indexing.coordinates)
    if (coordinate.axis < 0 && coordinate.index.storage < 0) return Fate::external(kNoMemory);
  if (out.sizes != indexing.axes)
    return Fate::external("the result's shape is not that of its indices");
  if (indexing.touches_nothing()) return Fate::external(kNothing);
  if (ir::numel(out.sizes) == 0) return Fate::fused();
  if (indexing.reads(out) || overlaps(indexing.self, {out})) return Fate::external(kOverlap);
  if (!indexing.check(ctx)) return Fate::external(kTooLate);
  StatementBuilder s(indexing.axes);
  ir::Access access = indexing.access(s);
  const bool selects = may_select && access.indirect.size() == 1 &&
                       access.indirect[0].extent >= 1 && access.indirect[0].extent <= kFewEntries;
  ctx.emit(s.store(out, selects ? select_entry(s, access) : s.load(std::move(access))));
  return Fate::fused();
}

/// Does the last axis that there is have indices of its own?
bool varies_along_rows(const View& index) {
  for (size_t d = index.sizes.size(); d-- > 0;)
    if (index.sizes[d] != 1) return index.strides[d] != 0;
  return false;
}

Fate gather(Context& ctx, const OperatorRecord& op) {
  View self = at_least_1d(ctx.tensor(op, 0)), out = at_least_1d(ctx.output(op));
  View index = at_least_1d(ctx.tensor(op, 2));
  if (index.sizes.size() != self.sizes.size())
    return Fate::external("index and self differ in rank");
  size_t dim = wrapped(integer(op, "dim", 0), self.sizes.size());
  return read(ctx, along_dimension(self, index, dim, index.sizes), out, varies_along_rows(index));
}

Fate index_select(Context& ctx, const OperatorRecord& op) {
  View self = at_least_1d(ctx.tensor(op, 0)), out = at_least_1d(ctx.output(op));
  size_t dim = wrapped(integer(op, "dim", 0), self.sizes.size());
  return read(ctx, select_dimension(self, ctx.tensor(op, 2), dim), out);
}

Fate embedding(Context& ctx, const OperatorRecord& op) {
  View weight = ctx.tensor(op, 0), index = ctx.tensor(op, 1);
  if (weight.sizes.size() != 2) return Fate::external("a weight that is no matrix");
  Indexing indexing{weight, index.sizes, {}, false};
  indexing.axes.push_back(weight.sizes[1]);
  index.sizes.push_back(1);
  index.strides.push_back(0);
  indexing.coordinates = {{-1, index}, {static_cast<int>(index.sizes.size()) - 1}};
  return read(ctx, indexing, ctx.output(op));
}

Fate subscript(Context& ctx, const OperatorRecord& op) {
  auto subscript = read_subscript(ctx, op);
  if (!subscript) return Fate::external("a mask, or an index without memory");
  return read(ctx, subscript->indexing, ctx.output(op));
}

/// 1 where the new last axis is the index, else 0.
Fate one_hot(Context& ctx, const OperatorRecord& op) {
  View index = ctx.tensor(op, 0), out = ctx.output(op);
  int64_t classes = integer(op, "num_classes", -1);
  if (index.storage < 0 || index.dtype != c10::ScalarType::Long || classes < 1)
    return Fate::external("no index tensor, or no number of classes");
  bool checked = ctx.check(index.sizes, [&](ir::StatementBuilder& s) {
    ir::Value x = s.load(index);
    return ir::lt(x, x.like(0)) | ir::ge(x, s.scalar(classes, c10::ScalarType::Long));
  });
  if (!checked) return Fate::external(kTooLate);
  index.sizes.push_back(1);
  index.strides.push_back(0);
  ir::StatementBuilder s(out.sizes);
  ir::Value is = ir::eq(s.load(index), s.axis(static_cast<int>(out.sizes.size()) - 1));
  ctx.emit(s.store(out, is.to(out.dtype)));
  return Fate::fused();
}

/// Indexes self as if it were flat, which one stride can say only where it is contiguous.
Fate take(Context& ctx, const OperatorRecord& op) {
  View self = ctx.tensor(op, 0), index = ctx.tensor(op, 1);
  bool contiguous =
      ir::access_of(self, self.sizes).strides ==
      ir::access_of({0, self.dtype, 0, self.sizes, ir::contiguous_strides(self.sizes)}, self.sizes)
          .strides;
  if (!contiguous) return Fate::external("a tensor that is not contiguous");
  self.sizes = {ir::numel(self.sizes)};
  self.strides = {1};
  return read(ctx, {self, index.sizes, {{-1, index}}, true}, ctx.output(op));
}

}  // namespace

std::vector<Row> index_rows() {
  std::vector<Row> rows = {
      {"aten::gather", gather, "elements chosen along one dimension"},
      {"aten::index_select", index_select, "slices chosen along one dimension"},
      {"aten::embedding", embedding, "rows of a table"},
      {"aten::index", subscript, "indexing by integer tensors"},
      {"aten::_unsafe_index", subscript, "indexing by integer tensors"},
      {"aten::one_hot", one_hot, "1 at the index along a new last axis, else 0"},
      {"aten::take", take, "elements of the flattened tensor"},
  };
  for (const Row& row : store_rows()) rows.push_back(row);
  for (const Row& row : search_rows()) rows.push_back(row);
  for (const Row& row : counting_rows()) rows.push_back(row);
  return rows;
}

}  // namespace graft::ops
