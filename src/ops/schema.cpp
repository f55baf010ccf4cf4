#include "ops/schema.h"

#include <c10/core/DefaultDtype.h>

#include <algorithm>

namespace graft::ops {

using c10::ScalarType;

std::string_view base_name(const record::OperatorRecord& op) {
  std::string_view name = op.op.operator_name().name;
  // In-place operators end in one underscore; __and__ and its sisters end in two.
  if (name.size() > 2 && name.back() == '_' && name[name.size() - 2] != '_') name.remove_suffix(1);
  return name;
}

std::string full_name(const record::OperatorRecord& op) {
  const auto& name = op.op.operator_name();
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

int argument_index(const record::OperatorRecord& op, std::string_view name) {
  const auto& arguments = op.op.schema().arguments();
  for (size_t k = 0; k < arguments.size(); ++k)
    if (arguments[k].name() == name) return static_cast<int>(k);
  return -1;
}

const c10::IValue* constant(const record::OperatorRecord& op, std::string_view name) {
  int k = argument_index(op, name);
  if (k < 0 || static_cast<size_t>(k) >= op.inputs.size()) return nullptr;
  const record::Operand& operand = op.inputs[static_cast<size_t>(k)];
  return operand.kind == record::Operand::Kind::Constant ? &operand.constant : nullptr;
}

bool takes_number(const record::OperatorRecord& op) {
  return std::any_of(op.inputs.begin(), op.inputs.end(), [](const record::Operand& operand) {
    return operand.kind == record::Operand::Kind::Number;
  });
}

std::optional<c10::Scalar> number(const record::OperatorRecord& op, std::string_view name) {
  const c10::IValue* value = constant(op, name);
  if (value == nullptr || !(value->isScalar() || value->isBool())) return std::nullopt;
  return value->toScalar();
}

int64_t integer(const record::OperatorRecord& op, std::string_view name, int64_t otherwise) {
  const c10::IValue* value = constant(op, name);
  return value != nullptr && value->isInt() ? value->toInt() : otherwise;
}

bool boolean(const record::OperatorRecord& op, std::string_view name, bool otherwise) {
  const c10::IValue* value = constant(op, name);
  return value != nullptr && value->isBool() ? value->toBool() : otherwise;
}

std::string text(const record::OperatorRecord& op, std::string_view name, std::string otherwise) {
  const c10::IValue* value = constant(op, name);
  return value != nullptr && value->isString() ? value->toStringRef() : otherwise;
}

std::vector<int64_t> integers(const record::OperatorRecord& op, std::string_view name) {
  const c10::IValue* value = constant(op, name);
  if (value == nullptr) return {};
  if (value->isIntList()) return value->toIntVector();
  if (value->isInt()) return {value->toInt()};
  std::vector<int64_t> list;
  if (value->isList())
    for (const c10::IValue& element : value->toListRef())
      if (element.isInt()) list.push_back(element.toInt());
  return list;
}

ir::View with_rank(ir::View view, size_t front, size_t back) {
  view.sizes.insert(view.sizes.begin(), front, 1);
  view.strides.insert(view.strides.begin(), front, 0);
  view.sizes.insert(view.sizes.end(), back, 1);
  view.strides.insert(view.strides.end(), back, 0);
  return view;
}

ir::Value convert(ir::Value value, ScalarType to) {
  if (is_reduced(to) && value.type() != to) value = value.to(ScalarType::Float);
  return value.to(to);
}

ir::Value multiply_add(ir::Value a, ir::Value b, ir::Value c, bool fused) {
  return fused ? ir::fma(a, b, c) : a * b + c;
}

c10::Scalar converted(const c10::Scalar& number, ScalarType type) {
  if (number.isComplex()) return converted(number.toComplexDouble().real(), type);
  bool floating = number.isFloatingPoint();
  if (type == ScalarType::Bool) return floating ? number.toDouble() != 0 : number.toLong() != 0;
  if (!is_float(type)) {
    int64_t value = floating ? static_cast<int64_t>(number.toDouble()) : number.toLong();
    return wrapped_to(value, type);
  }
  if (floating) return rounded_to(number.toDouble(), type);
  if (type == ScalarType::Double) return static_cast<double>(number.toLong());
  // An integer becomes a float in one rounding.
  return rounded_to(static_cast<float>(number.toLong()), type);
}

namespace {

ScalarType promote_skip_undefined(ScalarType a, ScalarType b) {
  if (a == ScalarType::Undefined) return b;
  if (b == ScalarType::Undefined) return a;
  return c10::promoteTypes(a, b);
}

/// The higher operand counts only where it is of a category at least as high as the lower's.
ScalarType combine_categories(ScalarType higher, ScalarType lower) {
  if (c10::isComplexType(higher)) return higher;
  if (c10::isFloatingType(higher))
    return c10::isComplexType(lower) ? c10::toComplexType(higher) : higher;
  if (higher == ScalarType::Bool || c10::isFloatingType(lower) || c10::isComplexType(lower))
    return promote_skip_undefined(higher, lower);
  return higher != ScalarType::Undefined ? higher : lower;
}

}  // namespace

void DtypePromotion::add(const record::TensorInfo& tensor) {
  ScalarType current = tensor.dtype;
  if (tensor.wrapped_number && c10::isFloatingType(current)) current = default_;
  ScalarType& slot = !tensor.sizes.empty() ? dims_ : tensor.wrapped_number ? wrapped_ : zero_;
  slot = promote_skip_undefined(slot, current);
}

void DtypePromotion::add(const c10::Scalar& number) {
  ScalarType current = number.isFloatingPoint() ? default_ : number.type();
  wrapped_ = promote_skip_undefined(wrapped_, current);
}

ScalarType DtypePromotion::result() const {
  return combine_categories(dims_, combine_categories(zero_, wrapped_));
}

}  // namespace graft::ops
