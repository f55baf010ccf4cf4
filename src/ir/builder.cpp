#include "ir/builder.h"

#include <bit>
#include <stdexcept>

namespace graft::ir {

namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::logic_error("loop program builder: " + what);
}

/// Room that most expressions fit in.
constexpr size_t kUsualLoads = 2, kUsualNodes = 4;

Value binary(Op op, Value a, Value b) {
  if (a.type() != b.type())
    fail(std::string("operands of ") + std::string(info(op).name) + " have types " +
         c10::toString(a.type()) + " and " + c10::toString(b.type()) + "; cast one of them");
  ScalarType type = is_compared(op) ? ScalarType::Bool : a.type();
  return {a.builder, a.builder->statement.expr.node(op, type, a.id, b.id)};
}

}  // namespace

ScalarType Value::type() const {
  return builder->statement.expr.type(id);
}
Value Value::to(ScalarType type) const {
  return {builder, builder->statement.expr.cast(id, type)};
}
Value Value::op(Op op) const {
  return {builder, builder->statement.expr.node(op, type(), id)};
}
Value Value::op(Op op, Value b) const {
  return binary(op, *this, b);
}
Value Value::like(double constant) const {
  return builder->constant(constant, type());
}

Value operator+(Value a, Value b) {
  return binary(Op::Add, a, b);
}
Value operator-(Value a, Value b) {
  return binary(Op::Sub, a, b);
}
Value operator*(Value a, Value b) {
  return binary(Op::Mul, a, b);
}
Value operator/(Value a, Value b) {
  return binary(Op::Div, a, b);
}
Value operator-(Value a) {
  return a.op(Op::Neg);
}
Value operator&(Value a, Value b) {
  return binary(Op::And, a, b);
}
Value operator|(Value a, Value b) {
  return binary(Op::Or, a, b);
}
Value operator^(Value a, Value b) {
  return binary(Op::Xor, a, b);
}
Value operator~(Value a) {
  return a.op(Op::Not);
}
Value operator+(Value a, double b) {
  return a + a.like(b);
}
Value operator-(Value a, double b) {
  return a - a.like(b);
}
Value operator*(Value a, double b) {
  return a * a.like(b);
}
Value operator/(Value a, double b) {
  return a / a.like(b);
}
Value operator+(double a, Value b) {
  return b.like(a) + b;
}
Value operator-(double a, Value b) {
  return b.like(a) - b;
}
Value operator*(double a, Value b) {
  return b.like(a) * b;
}
Value operator/(double a, Value b) {
  return b.like(a) / b;
}
Value eq(Value a, Value b) {
  return binary(Op::Eq, a, b);
}
Value ne(Value a, Value b) {
  return binary(Op::Ne, a, b);
}
Value lt(Value a, Value b) {
  return binary(Op::Lt, a, b);
}
Value le(Value a, Value b) {
  return binary(Op::Le, a, b);
}
Value gt(Value a, Value b) {
  return binary(Op::Gt, a, b);
}
Value ge(Value a, Value b) {
  return binary(Op::Ge, a, b);
}
Value select(Value condition, Value a, Value b) {
  if (condition.type() != ScalarType::Bool || a.type() != b.type())
    fail("select wants a Bool and two operands of one type");
  return {a.builder,
          a.builder->statement.expr.node(Op::Select, a.type(), condition.id, a.id, b.id)};
}
Value max(Value a, Value b) {
  return binary(Op::Max, a, b);
}
Value min(Value a, Value b) {
  return binary(Op::Min, a, b);
}
Value fma(Value a, Value b, Value c) {
  if (a.type() != b.type() || a.type() != c.type()) fail("fma wants three operands of one type");
  return {a.builder, a.builder->statement.expr.node(Op::Fma, a.type(), a.id, b.id, c.id)};
}
Value call(Routine routine, Value a) {
  return {a.builder, a.builder->statement.expr.call(routine, a.id)};
}
Value call(Routine routine, Value a, Value b) {
  return {a.builder, a.builder->statement.expr.call(routine, a.id, b.id)};
}
Value isnan(Value a) {
  return ne(a, a);
}

StatementBuilder::StatementBuilder(std::vector<int64_t> axes) {
  statement.axes = std::move(axes);
  statement.loads.reserve(kUsualLoads);
  statement.expr.nodes.reserve(kUsualNodes);
}

Value StatementBuilder::load(const View& view) {
  return load(access_of(view, statement.axes));
}

Value StatementBuilder::load(Access access) {
  size_t index = 0;
  while (index < statement.loads.size() && !(statement.loads[index] == access)) ++index;
  ScalarType type = access.dtype;
  if (index == statement.loads.size()) statement.loads.push_back(std::move(access));
  return {this, statement.expr.add({Op::Load, type, {-1, -1, -1}, static_cast<int64_t>(index)})};
}

Value StatementBuilder::constant(double value, ScalarType type) {
  return {this, statement.expr.constant(value, type)};
}
Value StatementBuilder::integer(int64_t value, ScalarType type) {
  return {this, statement.expr.integer(value, type)};
}

Value StatementBuilder::scalar(const c10::Scalar& value, ScalarType type) {
  uint64_t bits;
  if (is_float(type)) {
    double x = value.toDouble();
    if (type == ScalarType::Float) x = static_cast<float>(x);
    bits = std::bit_cast<uint64_t>(x);
  } else if (type == ScalarType::Bool) {
    bits = value.isFloatingPoint() ? value.toDouble() != 0 : value.toLong() != 0;
  } else {
    bits = static_cast<uint64_t>(value.toLong());
  }
  statement.scalars.push_back(bits);
  return {
      this,
      statement.expr.add(
          {Op::Scalar, type, {-1, -1, -1}, static_cast<int64_t>(statement.scalars.size() - 1)})};
}

Value StatementBuilder::axis(int axis) {
  return {this, statement.expr.add({Op::Axis, ScalarType::Long, {-1, -1, -1}, axis})};
}

Value StatementBuilder::reduce(ReduceOp op, Value input, std::vector<bool> axes,
                               ScalarType accumulate, bool scan) {
  if (statement.reduction) fail("a statement has one reduction");
  bool index = op == ReduceOp::ArgMax || op == ReduceOp::ArgMin;
  statement.reduction = Reduction{op, accumulate, -1, std::move(axes), scan};
  const bool narrow = widens(*statement.reduction, opmath(input.type()));
  Value term = index ? input : input.to(narrow ? ScalarType::Float : accumulate);
  statement.reduction->input = term.id;
  return {this, statement.expr.add({Op::Reduced, accumulate, {-1, -1, -1}, 0})};
}

Statement StatementBuilder::store(const View& view, Value value) {
  const std::vector<int64_t>& axes = statement.axes;
  if (!statement.reduction || statement.reduction->scan) return store(access_of(view, axes), value);
  View target = view;
  const auto& reduced = statement.reduction->axes;
  size_t count = axes.size();
  if (view.sizes.size() == count) {
    for (size_t a = 0; a < count; ++a)
      if (reduced[a]) target.strides[a] = 0, target.sizes[a] = axes[a];
  } else {
    target.sizes.clear();
    target.strides.clear();
    size_t next = 0;
    for (size_t a = 0; a < count; ++a) {
      if (reduced[a]) {
        target.sizes.push_back(axes[a]), target.strides.push_back(0);
      } else {
        if (next >= view.sizes.size()) fail("reduction's result has too few dimensions");
        target.sizes.push_back(view.sizes[next]), target.strides.push_back(view.strides[next]),
            ++next;
      }
    }
  }
  return store(access_of(target, axes), value);
}

Statement StatementBuilder::store(Access access, Value value) {
  statement.value = value.to(access.dtype).id;
  statement.store = std::move(access);
  return std::move(statement);
}

Access access_of(const View& view, const std::vector<int64_t>& axes) {
  Access access;
  access.storage = view.storage;
  access.dtype = view.dtype;
  auto size = static_cast<int64_t>(c10::elementSize(view.dtype));
  if (view.byte_offset % size != 0)
    fail("a view's byte offset is not a multiple of its element size");
  access.offset = view.byte_offset / size;
  access.strides.assign(axes.size(), 0);
  if (view.sizes.size() > axes.size())
    fail("a view has more dimensions than the statement has axes");
  size_t shift = axes.size() - view.sizes.size();
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    if (view.sizes[d] == axes[shift + d])
      access.strides[shift + d] = axes[shift + d] == 1 ? 0 : view.strides[d];
    else if (view.sizes[d] != 1)
      fail("size " + std::to_string(view.sizes[d]) + " does not broadcast to " +
           std::to_string(axes[shift + d]));
  }
  return access;
}

int64_t numel(const std::vector<int64_t>& sizes) {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  return n;
}

std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= std::max<int64_t>(sizes[d], 1);
  }
  return strides;
}

}  // namespace graft::ir
