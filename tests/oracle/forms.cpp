#include "oracle/forms.h"

#include <ATen/core/stack.h>

#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <sstream>

#include "ops/schema.h"

namespace graft::test {

namespace {

using c10::IValue;
using ops::Domain;

const std::vector<c10::OperatorHandle>& overloads_of(const std::string& name) {
  static const auto* all = [] {
    auto* map = new std::map<std::string, std::vector<c10::OperatorHandle>>;
    for (const c10::OperatorName& op_name : c10::Dispatcher::singleton().getAllOpNames()) {
      auto handle = c10::Dispatcher::singleton().findSchema(op_name);
      if (!handle) continue;
      record::OperatorRecord record{*handle, {}, {}, {}};
      (*map)[std::string(ops::base_name(record))].push_back(*handle);
    }
    for (auto& [base, handles] : *map)
      std::sort(handles.begin(), handles.end(), [](const auto& a, const auto& b) {
        return c10::toString(a.operator_name()) < c10::toString(b.operator_name());
      });
    return map;
  }();
  static const std::vector<c10::OperatorHandle> none;
  auto found = all->find(name);
  return found == all->end() ? none : found->second;
}

bool is_tensor(const c10::Argument& a) {
  const c10::Type& type = *a.type();
  if (type.kind() == c10::TypeKind::TensorType) return true;
  return type.kind() == c10::TypeKind::OptionalType &&
         type.cast<c10::OptionalType>()->getElementType()->kind() == c10::TypeKind::TensorType;
}
bool is_optional(const c10::Argument& a) {
  return a.type()->kind() == c10::TypeKind::OptionalType;
}
bool is_number(const c10::Argument& a) {
  c10::TypePtr type = a.type();
  if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  return type->kind() == c10::TypeKind::NumberType;
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Numbers for an operand: what its domain asks for.
std::vector<IValue> operand_numbers(Domain domain, int k) {
  switch (domain) {
    case Domain::Power:
      if (k == 0) return {2.5, int64_t{1}, int64_t{3}};
      // Half and BFloat16 round 2.998 and 3.001 to 3, and fp32 rounds 0.1 and the integer.
      return {int64_t{2}, 2.5,        0.5,        int64_t{3}, int64_t{-1}, int64_t{-2},       -0.5,
              int64_t{0}, int64_t{1}, 3.0,        0.1,        2.998,       int64_t{16777217}, 1e-3,
              kNan,       kInfinity,  -kInfinity, -0.,        3.001};
    case Domain::ShiftCount:
      return {int64_t{1}, int64_t{3}, int64_t{0}};
    case Domain::Divisor:
      return {int64_t{3}, -0.75, int64_t{-2}, 0.1, kInfinity, 1e-3};
    case Domain::Positive:
      return {int64_t{2}, 0.75, 0.1};
    default:
      return {int64_t{2}, 0.7, int64_t{-1}, kNan, kInfinity, -0., 60000.3, int64_t{16777217}};
  }
}

/// Is the number the same in every floating dtype? Rows that are judged by a call in double need
/// that: double takes a number as it is.
bool is_short(const IValue& number) {
  double value = number.toScalar().toDouble();
  return std::isnan(value) ||
         static_cast<double>(c10::BFloat16(static_cast<float>(value))) == value;
}

/// Values for an argument that is no operand: its default, and those that take another path through
/// ATen's kernel. An argument that is not listed keeps its default; without one it gets a plain
/// value of its type, so that a new row needs no entry here.
std::vector<IValue> argument_values(const c10::Argument& argument) {
  static const auto* listed = new std::map<std::string, std::vector<IValue>>{
      {"alpha", {int64_t{1}, int64_t{2}, -0.5, 0.1, kNan}},
      {"value", {int64_t{1}, 0.5, 0.1, kInfinity}},
      {"rounding_mode", {IValue(), "trunc", "floor"}},
      {"approximate", {"none", "tanh"}},
      {"decimals", {int64_t{0}, int64_t{2}, int64_t{-1}}},
      {"eps", {IValue(), 0.1}},
      {"nan", {IValue(), 1.5, 0.1}},
      {"posinf", {IValue(), 2.5, kNan}},
      {"neginf", {IValue(), -2.5, kInfinity}},
      {"negative_slope", {0.01, 0.3, kNan, -0.}},
      {"min_val", {int64_t{-1}, -0.3, kNan, int64_t{-1}, int64_t{2}, -kNan}},
      {"max_val", {int64_t{1}, 0.6, int64_t{1}, kNan, int64_t{1}, kNan}},
      {"scale", {1., 0.1}},
      {"input_scale", {1., 0.3}},
      {"is_result", {false, true}},
      {"beta", {int64_t{1}, 0.5, 0.1}},
      {"lambd", {0.5, 0.0, 0.1}},
      {"threshold", {int64_t{1}, 0.3, kNan}},
  };
  if (auto found = listed->find(argument.name()); found != listed->end()) {
    std::vector<IValue> values = found->second;
    // An optional tensor argument of that name is left to its default; a number's default comes
    // first.
    if (argument.default_value()) values[0] = *argument.default_value();
    return values;
  }
  if (argument.default_value()) return {*argument.default_value()};
  if (is_optional(argument)) return {IValue()};
  switch (argument.type()->kind()) {
    case c10::TypeKind::NumberType:
    case c10::TypeKind::FloatType:
      return {0.5};
    case c10::TypeKind::IntType:
      return {int64_t{1}};
    case c10::TypeKind::BoolType:
      return {false};
    default:
      return {};
  }
}

std::string text_of(const IValue& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

struct Slot {
  bool tensor = false, out = false, operand = false, optional = false;
  std::vector<IValue> values;
};

/// Reads the schema; empty when something in it is neither a tensor nor a value we know.
std::optional<std::vector<Slot>> slots_of(const ops::PointwiseRow& row,
                                          const c10::FunctionSchema& schema) {
  std::vector<Slot> slots;
  bool any = false;
  // where(condition) is another operator than where(condition, a, b).
  if (schema.arguments().size() < static_cast<size_t>(row.operands)) return std::nullopt;
  for (size_t k = 0; k < schema.arguments().size(); ++k) {
    const c10::Argument& argument = schema.arguments()[k];
    Slot slot;
    slot.operand = static_cast<int>(k) < row.operands;
    slot.optional = is_optional(argument);
    slot.out = argument.kwarg_only() && argument.alias_info() != nullptr &&
               argument.alias_info()->isWrite();
    if (is_tensor(argument) && (slot.operand || slot.out)) {
      slot.tensor = any = true;
    } else if (slot.operand && is_number(argument) && (row.promoted >> k & 1) != 0) {
      slot.values = operand_numbers(row.domain, static_cast<int>(k));
      if (row.bits.exactness == ops::Exactness::Close)
        std::erase_if(slot.values, [](const IValue& number) { return !is_short(number); });
    } else {
      slot.values = argument_values(argument);
      if (slot.values.empty()) return std::nullopt;
    }
    slots.push_back(std::move(slot));
  }
  if (!any) return std::nullopt;
  return slots;
}

Form make_form(const c10::OperatorHandle& op, const std::vector<Slot>& slots, int variant) {
  Form form{op};
  form.variant = variant;
  form.text = c10::toString(op.operator_name());
  const auto& arguments = op.schema().arguments();
  auto v = static_cast<size_t>(variant);
  // Of several optional operands (clamp's bounds), variants 1 and 2 leave one out.
  size_t optionals = 0;
  for (size_t k = 0; k < slots.size(); ++k) {
    const Slot& slot = slots[k];
    bool dropped = slot.operand && slot.optional && v == ++optionals;
    if (dropped) {
      form.constants.emplace_back();
      form.text += " " + arguments[k].name() + "=None";
    } else if (slot.tensor) {
      form.constants.emplace_back();
      form.tensor_at.push_back(static_cast<int>(k));
      if (!slot.out) ++form.operands;
      form.out = form.out || slot.out;
    } else {
      form.constants.push_back(slot.values[v % slot.values.size()]);
      if (slot.operand || v > 0)
        form.text += " " + arguments[k].name() + "=" + text_of(form.constants.back());
    }
  }
  form.in_place = !form.out && op.schema().is_mutable();
  return form;
}

}  // namespace

std::vector<Form> forms(const ops::PointwiseRow& row) {
  std::vector<Form> all;
  for (const c10::OperatorHandle& op : overloads_of(std::string(row.name))) {
    auto slots = slots_of(row, op.schema());
    if (!slots) continue;
    size_t variants = 1, optionals = 0;
    for (const Slot& slot : *slots) {
      variants = std::max(variants, slot.values.size());
      optionals += slot.operand && slot.optional;
    }
    if (optionals > 0) variants = std::max(variants, optionals + 1);
    for (size_t v = 0; v < variants; ++v) all.push_back(make_form(op, *slots, static_cast<int>(v)));
  }
  return all;
}

Tensors call(const Form& form, const Tensors& tensors) {
  torch::jit::Stack stack(form.constants.begin(), form.constants.end());
  for (size_t i = 0; i < form.tensor_at.size(); ++i)
    stack[static_cast<size_t>(form.tensor_at[i])] = tensors.at(i);
  form.op.callBoxed(stack);
  Tensors results;
  for (const IValue& value : stack) {
    if (value.isTensor()) results.push_back(value.toTensor());
    if (value.isTensorList())
      for (const at::Tensor& t : value.toTensorVector()) results.push_back(t);
  }
  return results;
}

}  // namespace graft::test
