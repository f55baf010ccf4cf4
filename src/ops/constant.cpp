#include "ops/constant.h"

#include <ATen/ScalarOps.h>
#include <c10/core/Device.h>

#include <bit>
#include <stdexcept>

#include "ir/expr.h"

namespace graft::ops {

namespace {

using ir::Constant;

Constant opaque(const c10::IValue& value) {
  return {ir::Opaque{value.tagKind(), std::make_shared<const c10::IValue>(value)}};
}

at::Tensor tensor_of(const ir::NumberTensor& number) {
  c10::Scalar value = is_float(number.dtype) ? c10::Scalar(std::bit_cast<double>(number.bits))
                      : number.dtype == c10::ScalarType::Bool ? c10::Scalar(number.bits != 0)
                                                              : c10::Scalar(number.bits);
  at::Tensor made = c10::scalar_to_tensor(value).to(number.dtype);
  made.unsafeGetTensorImpl()->set_wrapped_number(number.wrapped);
  return made;
}

c10::IValue list_of(const Constant::List& items, const c10::TypePtr& type) {
  const auto list_type = type->cast<c10::ListType>();
  if (!list_type) throw std::logic_error("a list is given where the schema wants " + type->str());
  const c10::TypePtr& element = list_type->getElementType();
  c10::impl::GenericList list(element);
  list.reserve(items.size());
  for (const Constant& item : items) list.push_back(value_of(item, element));
  return list;
}

/// One overload for each alternative of a constant.
struct ToValue {
  const c10::TypePtr& type;  ///< not Optional
  c10::IValue operator()(std::monostate) const { return {}; }
  c10::IValue operator()(bool value) const { return value; }
  c10::IValue operator()(int64_t value) const { return value; }
  c10::IValue operator()(double value) const { return value; }
  c10::IValue operator()(const std::string& value) const {
    if (type->kind() == c10::TypeKind::DeviceObjType) return c10::Device(value);
    return value;
  }
  c10::IValue operator()(const Constant::List& items) const { return list_of(items, type); }
  c10::IValue operator()(const ir::NumberTensor& number) const { return tensor_of(number); }
  c10::IValue operator()(const ir::Opaque& opaque) const {
    if (opaque.value == nullptr)
      throw std::logic_error("a constant (" + opaque.what +
                             ") that has no text form was read from text; record the program");
    return *opaque.value;
  }
};

}  // namespace

Constant constant_of(const c10::IValue& value) {
  if (value.isNone()) return {};
  if (value.isBool()) return {value.toBool()};
  if (value.isInt()) return {value.toInt()};
  if (value.isDouble()) return {value.toDouble()};
  if (value.isString()) return {value.toStringRef()};
  if (value.isDevice()) return {value.toDevice().str()};
  if (!value.isList()) return opaque(value);
  Constant::List items;
  for (const c10::IValue& item : value.toListRef()) {
    items.push_back(constant_of(item));
    if (std::holds_alternative<ir::Opaque>(items.back().value)) return opaque(value);
  }
  return {std::move(items)};
}

Constant constant_of(const c10::Scalar& number, c10::ScalarType dtype, bool wrapped) {
  auto made = [&](int64_t bits) -> Constant { return {ir::NumberTensor{dtype, bits, wrapped}}; };
  bool integral = is_integer(dtype) || dtype == c10::ScalarType::Bool;
  if (is_float(dtype) && !number.isComplex())
    return made(std::bit_cast<int64_t>(number.toDouble()));
  if (integral && number.isIntegral(/*includeBool=*/true)) return made(number.toLong());
  at::Tensor tensor = c10::scalar_to_tensor(number).to(dtype);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(wrapped);
  return opaque(tensor);
}

c10::IValue value_of(const Constant& constant, const c10::TypePtr& type) {
  if (const auto optional = type->cast<c10::OptionalType>())
    return value_of(constant, optional->getElementType());
  return std::visit(ToValue{type}, constant.value);
}

}  // namespace graft::ops
