// Writes by index. Two equal indices store one place twice, in an order that parallel loops do not
// keep, so an operator is fused only where that cannot matter: one index, or one value for all of
// them. Otherwise it stays ATen's.
#include "ops/indexing.h"
#include "ops/reduce.h"
#include "ops/schema.h"

namespace graft::ops {

namespace {

using ir::StatementBuilder;
using ir::Value;
using ir::View;
using record::OperatorRecord;

constexpr const char* kOrder = "equal indices store one place in order";
constexpr const char* kShape = "an unusual shape";

/// What is stored: a tensor that broadcasts to the axes, or a number.
struct Source {
  View view = {};
  std::optional<c10::Scalar> number = {};
};

/// The source in the tensor argument `name` (or the number of that name).
std::optional<Source> source_of(Context& ctx, const OperatorRecord& op, const char* name) {
  if (auto value = number(op, name)) return Source{{}, value};
  int k = argument_index(op, name);
  if (k < 0) return std::nullopt;
  const record::TensorInfo& tensor = ctx.tensor(op, static_cast<size_t>(k));
  if (tensor.constant) return Source{{}, tensor.constant};
  if (tensor.storage < 0) return std::nullopt;
  return Source{tensor, {}};
}

/// out = self with source stored at the indexing's places. `indexing.self` is the operator's self.
Fate write(Context& ctx, const OperatorRecord& op, Indexing indexing, Source source) {
  View self = indexing.self, out = ctx.output(op);
  if (self.storage < 0) return Fate::external("a tensor without memory");
  for (const Coordinate& coordinate : indexing.coordinates)
    if (coordinate.axis < 0 && coordinate.index.storage < 0)
      return Fate::external("an index without memory");
  if (indexing.touches_nothing()) return Fate::external(kNothing);
  bool empty = ir::numel(indexing.axes) == 0;
  if (indexing.reads(out) || (!source.number && overlaps(source.view, {out})))
    return Fate::external(kOverlap);
  if (!empty && !indexing.check(ctx)) return Fate::external(kTooLate);
  View target = at_least_1d(out);
  if (target != self && overlaps(self, {target})) return Fate::external(kOverlap);
  if (target != self) ctx.copy(self, target);
  if (empty) return Fate::fused();
  indexing.self = target;
  StatementBuilder s(indexing.axes);
  Value value =
      source.number ? s.scalar(*source.number, out.dtype) : s.load(source.view).to(out.dtype);
  ctx.emit(s.store(indexing.access(s), value));
  return Fate::fused();
}

Fate scatter(Context& ctx, const OperatorRecord& op) {
  if (argument_index(op, "reduce") >= 0) return Fate::external("an accumulating scatter");
  View self = at_least_1d(ctx.tensor(op, 0)), index = at_least_1d(ctx.tensor(op, 2));
  auto source = source_of(ctx, op, argument_index(op, "src") >= 0 ? "src" : "value");
  if (!source || index.sizes.size() != self.sizes.size()) return Fate::external(kShape);
  size_t dim = wrapped(integer(op, "dim", 0), self.sizes.size());
  if (!source->number) {
    source->view = at_least_1d(source->view);
    if (source->view.sizes.size() != index.sizes.size()) return Fate::external(kShape);
    if (index.sizes[dim] > 1) return Fate::external(kOrder);
    source->view.sizes = index.sizes;  // only that part of it is read
  }
  return write(ctx, op, along_dimension(self, index, dim, index.sizes), *source);
}

Fate index_copy(Context& ctx, const OperatorRecord& op) {
  View self = ctx.tensor(op, 0), index = ctx.tensor(op, 2);
  auto source = source_of(ctx, op, "source");
  if (!source || source->number || self.sizes.empty() ||
      source->view.sizes.size() != self.sizes.size())
    return Fate::external(kShape);
  if (ir::numel(index.sizes) > 1) return Fate::external(kOrder);
  size_t dim = wrapped(integer(op, "dim", 0), self.sizes.size());
  return write(ctx, op, select_dimension(self, index, dim), *source);
}

Fate index_fill(Context& ctx, const OperatorRecord& op) {
  View self = ctx.tensor(op, 0), index = ctx.tensor(op, 2);
  auto source = source_of(ctx, op, "value");
  if (!source || self.sizes.empty()) return Fate::external(kShape);
  size_t dim = wrapped(integer(op, "dim", 0), self.sizes.size());
  Indexing indexing = select_dimension(self, index, dim);
  indexing.wrap = true;
  return write(ctx, op, std::move(indexing), *source);
}

/// Do all indices store the same value: is `values` broadcast along the axes of the indices?
bool is_uniform(const Source& values, const Subscript& subscript) {
  int64_t indices = 1;
  for (size_t a = 0; a < subscript.count; ++a)
    indices *= subscript.indexing.axes[subscript.first + a];
  if (values.number || indices <= 1) return true;
  ir::Access access = ir::access_of(values.view, subscript.indexing.axes);
  for (size_t a = 0; a < subscript.count; ++a)
    if (access.strides[subscript.first + a] != 0) return false;
  return true;
}

Fate index_put(Context& ctx, const OperatorRecord& op) {
  if (boolean(op, "accumulate", false)) return Fate::external("equal indices add up in order");
  auto subscript = read_subscript(ctx, op);
  if (!subscript) return Fate::external("a mask, or an index without memory");
  auto values = source_of(ctx, op, "values");
  if (!values) return Fate::external(kShape);
  // Leading dimensions of size 1 beyond the indexed shape broadcast too.
  View& view = values->view;
  while (!values->number && view.sizes.size() > subscript->indexing.axes.size() &&
         view.sizes[0] == 1) {
    view.sizes.erase(view.sizes.begin());
    view.strides.erase(view.strides.begin());
  }
  if (!is_uniform(*values, *subscript)) return Fate::external(kOrder);
  return write(ctx, op, std::move(subscript->indexing), *values);
}

}  // namespace

std::vector<Row> store_rows() {
  return {
      {"aten::scatter", scatter, "elements stored along one dimension"},
      {"aten::index_copy", index_copy, "a slice stored at an index"},
      {"aten::index_fill", index_fill, "slices set to one value"},
      {"aten::index_put", index_put, "assignment through integer tensors"},
      {"aten::_index_put_impl", index_put, "assignment through integer tensors"},
      {"aten::_unsafe_index_put", index_put, "assignment through integer tensors"},
  };
}

}  // namespace graft::ops
