// Random calls of pointwise rows, through their schemas: a new row of the table is drawn without a
// change here.
#include <map>

#include "fuzz/generate.h"
#include "ops/schema.h"

namespace graft::fuzz {

namespace {

using c10::IValue;
using ops::Domain;
using ops::PointwiseRow;

struct Overload {
  const PointwiseRow* row;
  c10::OperatorHandle op;
};

bool is_tensor(const c10::Argument& argument) {
  c10::TypePtr type = argument.type();
  if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  return type->kind() == c10::TypeKind::TensorType;
}
bool is_number(const c10::Argument& argument) {
  c10::TypePtr type = argument.type();
  if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  return type->kind() == c10::TypeKind::NumberType;
}
bool is_optional(const c10::Argument& argument) {
  return argument.type()->kind() == c10::TypeKind::OptionalType;
}
bool is_out(const c10::Argument& argument) {
  return argument.kwarg_only() && argument.alias_info() != nullptr &&
         argument.alias_info()->isWrite();
}

/// Calls whose results eager itself does not define.
bool unfit(const std::string& name) {
  // With out= of another dtype, ATen 2.11 writes past the end of its buffer.
  if (name == "aten::log_sigmoid_forward.output") return true;
  // The sign of a NaN that arithmetic made is the compiler's choice, in ATen as well.
  return name.starts_with("aten::signbit") || name.starts_with("aten::copysign");
}

/// Sorted by name: the dispatcher's own order differs from run to run.
const std::vector<std::vector<Overload>>& overloads_by_row() {
  static const auto* all = [] {
    std::map<std::string, std::vector<c10::OperatorHandle>> by_name;
    for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames())
      if (auto op = c10::Dispatcher::singleton().findSchema(name))
        by_name[std::string(ops::base_name(record::OperatorRecord{*op, {}, {}, {}}))].push_back(
            *op);
    auto* rows = new std::vector<std::vector<Overload>>;
    for (const PointwiseRow& row : ops::pointwise_table()) {
      // NaN may come to any step, and there eager has two results.
      if (row.domain == Domain::Branching) continue;
      auto& handles = by_name[std::string(row.name)];
      std::sort(handles.begin(), handles.end(), [](const auto& a, const auto& b) {
        return c10::toString(a.operator_name()) < c10::toString(b.operator_name());
      });
      std::vector<Overload> overloads;
      for (const auto& op : handles)
        if (!unfit(c10::toString(op.operator_name()))) overloads.push_back({&row, op});
      if (!overloads.empty()) rows->push_back(std::move(overloads));
    }
    return rows;
  }();
  return *all;
}

IValue number_for(Domain domain, size_t k, Random& random) {
  if (domain == Domain::ShiftCount) return random.between(0, 5);
  if (domain == Domain::Power && k == 1)
    return random.pick<IValue>(
        {int64_t{2}, int64_t{3}, 0.5, int64_t{-1}, -0.5, 1.5, int64_t{1}, int64_t{0}});
  if (domain == Domain::Divisor && k == 1)
    return random.pick<IValue>({int64_t{2}, int64_t{3}, int64_t{7}, 0.3, 1.5});
  return random.pick<IValue>(
      {int64_t{2}, int64_t{-1}, int64_t{0}, int64_t{1}, 0.5, -1.25, 0.1, int64_t{3}});
}

/// A value for an argument that is neither an operand nor out=; nothing for one of an unknown kind
/// without default.
std::optional<IValue> other_value(const c10::Argument& argument, Random& random) {
  const std::string& name = argument.name();
  if (name == "rounding_mode") return random.pick<IValue>({IValue(), "trunc", "floor"});
  if (name == "approximate") return random.pick<IValue>({"none", "tanh"});
  if (name == "decimals") return random.between(-1, 2);
  if (is_number(argument) && random.chance(0.5))
    return random.pick<IValue>({int64_t{1}, int64_t{2}, 0.5});
  if (argument.default_value()) return *argument.default_value();
  if (is_optional(argument)) return IValue();
  switch (argument.type()->kind()) {
    case c10::TypeKind::NumberType:
    case c10::TypeKind::FloatType:
      return IValue(0.5);
    case c10::TypeKind::IntType:
      return IValue(int64_t{1});
    case c10::TypeKind::BoolType:
      return IValue(false);
    default:
      return std::nullopt;
  }
}

/// Integer division of the smallest number by -1 stops the process, in eager already: divide by
/// small positive numbers.
bool divides_integers(Generator& g, const PointwiseRow& row, int first) {
  return row.raises != nullptr &&
         (g.tensor(first).scalar_type() == at::kInt || g.tensor(first).scalar_type() == at::kLong ||
          g.tensor(first).scalar_type() == at::kBool);
}

/// An operand of that kind of row, next to the first one; -1 when there is none.
int operand_for(Generator& g, const c10::Argument& argument, const PointwiseRow& row, int first) {
  if (argument.name() == "condition" || argument.name() == "mask") {
    int mask = g.pick([&](const at::Tensor& t) {
      return t.scalar_type() == at::kBool && t.sizes() == g.tensor(first).sizes();
    });
    if (mask >= 0) return mask;
    return g.add("aten::gt.Scalar", {value_of(first), constant_of(int64_t{0})});
  }
  if (row.domain == Domain::ShiftCount)
    return -1;  // by number only: a count out of range is undefined
  if (divides_integers(g, row, first)) {
    int divisor =
        g.add("aten::clamp", {value_of(first), constant_of(int64_t{1}), constant_of(int64_t{9})});
    return divisor;
  }
  int other = g.pick_beside(first);
  if (other >= 0 && row.raises != nullptr && divides_integers(g, row, other)) return -1;
  return other;
}

}  // namespace

void add_pointwise(Generator& g) {
  const auto& rows = overloads_by_row();
  const Overload overload = g.random.pick(g.random.pick(rows));
  const auto& arguments = overload.op.schema().arguments();
  bool in_place = overload.op.schema().is_mutable();
  int first = in_place ? g.pick([](const at::Tensor& t) { return t.numel() > 0; }) : g.pick_any();
  if (first < 0) return;
  std::vector<Operand> operands;
  int tensors = 0;
  for (size_t k = 0; k < arguments.size(); ++k) {
    const c10::Argument& argument = arguments[k];
    bool is_operand = static_cast<int>(k) < overload.row->operands;
    if (is_out(argument)) {
      int out = g.pick_like(g.tensor(first).sizes(), g.tensor(first).scalar_type());
      if (out < 0) return;
      operands.push_back(value_of(out));
    } else if (is_operand && is_tensor(argument)) {
      if (is_optional(argument) && g.random.chance(0.3)) {
        operands.push_back(constant_of(IValue()));
        continue;
      }
      bool leads = tensors++ == 0 && argument.name() != "condition";
      int number = leads ? first : operand_for(g, argument, *overload.row, first);
      if (number < 0) return;
      operands.push_back(value_of(number));
    } else if (is_operand && is_number(argument)) {
      bool none = is_optional(argument) && g.random.chance(0.3);
      operands.push_back(
          constant_of(none ? IValue() : number_for(overload.row->domain, k, g.random)));
    } else {
      auto value = other_value(argument, g.random);
      if (!value) return;
      operands.push_back(constant_of(*value));
    }
  }
  if (tensors > 0) g.add(c10::toString(overload.op.operator_name()), std::move(operands));
}

}  // namespace graft::fuzz
