// Writes by index. Two equal indices store one place twice, in an order that parallel loops do not
// keep: unless there is one index, or one value for all of them, the statement runs through its
// indices in order.
#include <functional>
#include <limits>
#include <utility>

#include "ops/indexing.h"
#include "ops/reduce.h"
#include "ops/schema.h"

namespace graft::ops {

namespace {

using c10::ScalarType;
using ir::StatementBuilder;
using ir::Value;
using ir::View;
using record::OperatorRecord;

constexpr const char* kOrder = "indices that are not even in memory";
constexpr const char* kWider = "sums that eager keeps in a wider type";
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

/// What a place becomes, of what it holds and the source.
using Combine = std::function<Value(Value held, Value source)>;

/// The axes of the indices, which are run through in order. `combine`: empty stores the source.
struct InOrder {
  size_t first, count;
  Combine combine = {};
  std::optional<c10::Scalar> instead = {};  ///< what is combined with, instead of what was there
};

/// `combine` in the dtype that arithmetic on `dtype` is done in.
Value combined(StatementBuilder& s, const Combine& combine, const ir::Access& place, Value source,
               ScalarType dtype) {
  return combine(s.load(place).to(opmath(dtype)), source.to(opmath(dtype))).to(dtype);
}

/// out = self with source stored at the indexing's places. `indexing.self` is the operator's self.
Fate write(Context& ctx, const OperatorRecord& op, Indexing indexing, Source source,
           const std::optional<InOrder>& order = {}) {
  View self = indexing.self, out = ctx.output(op);
  if (self.storage < 0) return Fate::external("a tensor without memory");
  for (const Coordinate& coordinate : indexing.coordinates)
    if (coordinate.axis < 0 && coordinate.index.storage < 0)
      return Fate::external("an index without memory");
  if (indexing.touches_nothing()) return Fate::external(kNothing);
  bool empty = ir::numel(indexing.axes) == 0;
  if (indexing.reads(out) || (!source.number && overlaps(source.view, {out})))
    return Fate::external(kOverlap);
  Indexing ordered = indexing;
  if (order && !empty) {
    std::vector<View*> also;
    if (!source.number) also.push_back(&source.view);
    if (!ordered.to_front(order->first, order->count, also)) return Fate::external(kOrder);
  }
  if (!empty && !indexing.check(ctx)) return Fate::external(kTooLate);
  View target = at_least_1d(out);
  if (target != self && overlaps(self, {target})) return Fate::external(kOverlap);
  if (target != self) ctx.copy(self, target);
  if (empty) return Fate::fused();
  ordered.self = target;
  if (order && order->instead) {
    StatementBuilder all(ordered.axes);  // one value for all: in any order
    ir::Access place = ordered.access(all);
    ctx.emit(all.store(std::move(place), all.scalar(*order->instead, out.dtype)));
  }
  StatementBuilder s(ordered.axes);
  Value value =
      source.number ? s.scalar(*source.number, out.dtype) : s.load(source.view).to(out.dtype);
  ir::Access place = ordered.access(s);
  if (order && order->combine) value = combined(s, order->combine, place, value, out.dtype);
  ir::Statement statement = s.store(std::move(place), value);
  order ? ctx.emit_in_order(std::move(statement)) : ctx.emit(std::move(statement));
  return Fate::fused();
}

Value add(Value held, Value source) {
  return held + source;
}

/// As std::max and std::min of what is there and a number: of zeros that differ in sign, what is
/// there stays. A NaN comes through.
Value replaced_where(Value better, Value held, Value source) {
  return select(better | ne(source, source), source, held);
}

/// Of scatter's `reduce`; empty for what has none here.
Combine combine_of(std::string_view reduce) {
  if (reduce == "sum" || reduce == "add") return add;
  if (reduce == "prod" || reduce == "multiply")
    return [](Value held, Value source) { return held * source; };
  if (reduce == "amax")
    return [](Value held, Value source) { return replaced_where(lt(held, source), held, source); };
  if (reduce == "amin")
    return [](Value held, Value source) { return replaced_where(lt(source, held), held, source); };
  return {};
}

/// Eager adds up 16-bit values in fp32 before it rounds, and Bool has sums of its own.
bool adds_plainly(ScalarType type) {
  return !is_reduced(type) && type != ScalarType::Bool;
}

/// What `combine_of(reduce)` leaves as it is: what eager puts where elements come that shall not be
/// combined with what is there.
std::optional<c10::Scalar> identity_of(std::string_view reduce, ScalarType type) {
  const double infinity = std::numeric_limits<double>::infinity();
  if (reduce == "sum" || reduce == "mean") return c10::Scalar(0);
  if (reduce == "prod") return c10::Scalar(1);
  if (reduce != "amax" && reduce != "amin") return std::nullopt;
  if (is_float(type)) return c10::Scalar(reduce == "amax" ? -infinity : infinity);
  const ir::Range range = ir::range_of(type);
  return c10::Scalar(reduce == "amax" ? range.low : range.high);
}

Fate scatter_with(Context& ctx, const OperatorRecord& op, const Combine& combine,
                  std::optional<c10::Scalar> instead = {}) {
  View self = at_least_1d(ctx.tensor(op, 0)), index = at_least_1d(ctx.tensor(op, 2));
  auto source = source_of(ctx, op, argument_index(op, "src") >= 0 ? "src" : "value");
  if (!source || index.sizes.size() != self.sizes.size()) return Fate::external(kShape);
  if (combine && !adds_plainly(self.dtype)) return Fate::external(kWider);
  size_t dim = wrapped(integer(op, "dim", 0), self.sizes.size());
  std::optional<InOrder> order;
  if (combine) order = InOrder{dim, 1, combine, std::move(instead)};
  if (!source->number) {
    source->view = at_least_1d(source->view);
    if (source->view.sizes.size() != index.sizes.size()) return Fate::external(kShape);
    if (index.sizes[dim] > 1 && !order) order = InOrder{dim, 1};
    source->view.sizes = index.sizes;  // only that part of it is read
  }
  return write(ctx, op, along_dimension(self, index, dim, index.sizes), *source, order);
}

Fate scatter(Context& ctx, const OperatorRecord& op) {
  if (argument_index(op, "reduce") < 0) return scatter_with(ctx, op, {});
  Combine combine = combine_of(text(op, "reduce", ""));
  if (!combine) return Fate::external("a reduction of its own");
  return scatter_with(ctx, op, combine);
}

Fate scatter_add(Context& ctx, const OperatorRecord& op) {
  return scatter_with(ctx, op, add);
}

/// Divides each element of the result by how many were added up in it, `own` of which it had.
Fate average(Context& ctx, const OperatorRecord& op, int64_t own) {
  const View self = at_least_1d(ctx.tensor(op, 0)), out = at_least_1d(ctx.output(op));
  View index = at_least_1d(ctx.tensor(op, 2));
  const size_t dim = wrapped(integer(op, "dim", 0), self.sizes.size());
  // One count serves a dimension along which the index is repeated, as that of rows of features.
  std::vector<int64_t> apart = self.sizes;
  for (size_t d = 0; d < apart.size(); ++d)
    if (d != dim && index.strides[d] == 0 && index.sizes[d] == self.sizes[d] && apart[d] > 1)
      apart[d] = index.sizes[d] = 1;
  const View counts = ctx.temporary(apart, out.dtype);
  ctx.fill(counts, own);
  if (ir::numel(index.sizes) > 0) {
    Indexing places = along_dimension(counts, index, dim, index.sizes);
    if (!places.to_front(dim, 1, {})) return Fate::external(kOrder);
    StatementBuilder s(places.axes);
    ir::Access place = places.access(s);
    const Value held = s.load(place);
    ctx.emit_in_order(s.store(std::move(place), held + held.like(1)));
  }
  StatementBuilder s(out.sizes);
  const Value count = s.load(counts);
  ctx.emit(s.store(out, s.load(out) / select(eq(count, count.like(0)), count.like(1), count)));
  return Fate::fused();
}

Fate scatter_reduce(Context& ctx, const OperatorRecord& op) {
  const std::string reduce = text(op, "reduce", "");
  const ScalarType type = ctx.output(op).dtype;
  const bool own = boolean(op, "include_self", true), averages = reduce == "mean";
  if (averages && !is_float(type)) return Fate::external("means of integers");
  const Combine combine = averages ? add : combine_of(reduce);
  if (!combine) return Fate::external("a reduction of its own");
  std::optional<c10::Scalar> instead;
  if (!own) instead = identity_of(reduce, type);
  Fate fate = scatter_with(ctx, op, combine, instead);
  return averages && fate.kind == Fate::Kind::Fused ? average(ctx, op, own ? 1 : 0) : fate;
}

/// old + alpha * source, as ATen's add of slices; of a list of numbers it rounds the product.
Fate index_add(Context& ctx, const OperatorRecord& op) {
  View self = at_least_1d(ctx.tensor(op, 0)), index = ctx.tensor(op, 2);
  auto source = source_of(ctx, op, "source");
  if (!source || source->number) return Fate::external(kShape);
  if (!adds_plainly(self.dtype)) return Fate::external(kWider);
  source->view = at_least_1d(source->view);
  if (source->view.sizes.size() != self.sizes.size()) return Fate::external(kShape);
  const c10::Scalar alpha = number(op, "alpha").value_or(1);
  const bool unit = alpha.equal(1);
  Combine combine = [&](Value held, Value value) {
    if (unit) return held + value;
    Value factor = held.builder->scalar(alpha, held.type());
    return is_float(held.type()) ? fma(value, factor, held) : held + factor * value;
  };
  size_t dim = wrapped(integer(op, "dim", 0), self.sizes.size());
  Fate fate = write(ctx, op, select_dimension(self, index, dim), *source, InOrder{dim, 1, combine});
  if (!unit && fate.kind == Fate::Kind::Fused) ctx.approximate(opmath(self.dtype));
  return fate;
}

/// Rows of a gradient added up where the forward pass took them from. Eager skips indices that are
/// out of range, and so padding_idx -1.
Fate embedding_backward(Context& ctx, const OperatorRecord& op) {
  View out = ctx.output(op), gradient = ctx.tensor(op, 0), index = ctx.tensor(op, 1);
  if (boolean(op, "scale_grad_by_freq", false)) return Fate::external("rows scaled by frequency");
  if (gradient.storage < 0 || index.storage < 0 || gradient.sizes.empty())
    return Fate::external(kShape);
  if (!adds_plainly(out.dtype)) return Fate::external(kWider);
  if (overlaps(gradient, {out}) || overlaps(index, {out})) return Fate::external(kOverlap);
  if (ir::numel(out.sizes) == 0) return Fate::external(kNothing);
  if (ir::numel(gradient.sizes) == 0) {
    ctx.fill(out, 0);
    return Fate::fused();
  }
  const size_t row = gradient.sizes.size() - 1;
  index.sizes.push_back(1);
  index.strides.push_back(0);
  Indexing tokens{out, gradient.sizes, {Coordinate{-1, index}}, false};
  if (!tokens.to_front(0, row, {&gradient})) return Fate::external(kOrder);
  ctx.fill(out, 0);
  StatementBuilder s(tokens.axes);
  Value k = s.load(tokens.coordinates[0].index).to(ScalarType::Long), none = k.like(0);
  Value used = ge(k, none) & lt(k, s.scalar(out.sizes[0], ScalarType::Long));
  if (const int64_t padding = integer(op, "padding_idx", -1); padding >= 0)
    used = used & ne(k, s.scalar(padding, ScalarType::Long));
  View line{out.storage, out.dtype, out.byte_offset, {out.sizes[1]}, {out.strides[1]}};
  ir::Access place = ir::access_of(line, tokens.axes);
  place.indirect.push_back({select(used, k, none).id, out.strides[0], out.sizes[0]});
  Value held = s.load(place);
  ctx.emit_in_order(s.store(std::move(place), select(used, held + s.load(gradient), held)));
  return Fate::fused();
}

Fate index_copy(Context& ctx, const OperatorRecord& op) {
  View self = ctx.tensor(op, 0), index = ctx.tensor(op, 2);
  auto source = source_of(ctx, op, "source");
  if (!source || source->number || self.sizes.empty() ||
      source->view.sizes.size() != self.sizes.size())
    return Fate::external(kShape);
  size_t dim = wrapped(integer(op, "dim", 0), self.sizes.size());
  std::optional<InOrder> order;
  if (ir::numel(index.sizes) > 1) order = InOrder{dim, 1};
  return write(ctx, op, select_dimension(self, index, dim), *source, order);
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
  if (std::optional<Fate> fate = masked_put(ctx, op)) return *fate;
  const bool accumulate = boolean(op, "accumulate", false);
  auto subscript = read_subscript(ctx, op);
  if (!subscript) return Fate::external("a mask, or an index without memory");
  auto values = source_of(ctx, op, "values");
  if (!values) return Fate::external(kShape);
  // Leading dimensions of size 1 beyond the indexed shape broadcast too.
  if (!values->number) values->view = without_front(values->view, subscript->indexing.axes.size());
  std::optional<InOrder> order;
  if (accumulate) {
    if (!adds_plainly(subscript->indexing.self.dtype)) return Fate::external(kWider);
    order = InOrder{subscript->first, subscript->count, add};
  } else if (!is_uniform(*values, *subscript)) {
    order = InOrder{subscript->first, subscript->count};
  }
  Fate fate = write(ctx, op, std::move(subscript->indexing), *values, order);
  // Eager's threads add in any order.
  ScalarType type = ctx.output(op).dtype;
  if (accumulate && is_float(type) && fate.kind == Fate::Kind::Fused) ctx.approximate(type);
  return fate;
}

}  // namespace

std::vector<Row> store_rows() {
  return {
      {"aten::scatter", scatter, "elements stored along one dimension"},
      {"aten::scatter_add", scatter_add, "elements added up along one dimension"},
      {"aten::scatter_reduce", scatter_reduce,
       "their sum, product, mean or largest, with what is there or without"},
      {"aten::index_add", index_add, "slices added up at an index"},
      {"aten::embedding_dense_backward", embedding_backward, "gradient of embedding's table"},
      {"aten::index_copy", index_copy, "a slice stored at an index"},
      {"aten::index_fill", index_fill, "slices set to one value"},
      {"aten::index_put", index_put, "assignment through integer tensors"},
      {"aten::_index_put_impl", index_put, "assignment through integer tensors"},
      {"aten::_unsafe_index_put", index_put, "assignment through integer tensors"},
  };
}

}  // namespace graft::ops
