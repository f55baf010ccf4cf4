#include "runtime/family/regimes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace graft::runtime {

namespace {

/// Integers up to here are exact in fp32, and those a box further, too.
constexpr double kExactInSingle = 1 << 22;
/// Where a slice may end that ends nowhere.
constexpr int64_t kEndless = int64_t{1} << 60;

/// An operator of one record.
class Call {
 public:
  Call(const record::Trace& trace, const record::OperatorRecord& op) : trace_(trace), op_(op) {}

  std::string_view name() const { return op_.op.operator_name().name; }

  /// By the argument's name in the schema; null where it has none, or is no constant.
  const c10::IValue* argument(std::string_view name) const {
    const auto& arguments = op_.op.schema().arguments();
    for (size_t k = 0; k < arguments.size() && k < op_.inputs.size(); ++k)
      if (arguments[k].name() == name && op_.inputs[k].kind == record::Operand::Kind::Constant)
        return &op_.inputs[k].constant;
    return nullptr;
  }
  std::optional<int64_t> integer(std::string_view name) const {
    const c10::IValue* value = argument(name);
    return value != nullptr && value->isInt() ? std::optional(value->toInt()) : std::nullopt;
  }
  std::vector<int64_t> integers(std::string_view name) const {
    const c10::IValue* value = argument(name);
    if (value == nullptr) return {};
    if (value->isInt()) return {value->toInt()};
    return value->isIntList() ? value->toIntVector() : std::vector<int64_t>();
  }
  /// Of the k-th input; null where that is no tensor.
  const record::TensorInfo* tensor(size_t k) const {
    if (k >= op_.inputs.size() || op_.inputs[k].tensors.size() != 1 || op_.inputs[k].tensors[0] < 0)
      return nullptr;
    return &trace_.tensors[static_cast<size_t>(op_.inputs[k].tensors[0])];
  }
  const record::OperatorRecord& op() const { return op_; }

 private:
  const record::Trace& trace_;
  const record::OperatorRecord& op_;
};

int64_t size_along(const record::TensorInfo& tensor, int64_t dim) {
  const auto rank = static_cast<int64_t>(tensor.sizes.size());
  if (rank == 0) return 1;
  return tensor.sizes[static_cast<size_t>(dim < 0 ? dim + rank : dim)];
}

/// The numbers that ATen compares with zero in a call, in order.
std::vector<int64_t> compared(const Call& call) {
  const record::TensorInfo* self = call.tensor(0);
  if (self == nullptr) return {};
  const std::string_view name = call.name();
  std::vector<int64_t> found;
  if (name == "aten::slice") {
    const int64_t size = size_along(*self, call.integer("dim").value_or(0));
    auto clamped = [&](int64_t place) {
      if (place >= kEndless) return size;
      if (place < 0) place += size;
      found.push_back(place), found.push_back(size - place);
      return std::clamp<int64_t>(place, 0, size);
    };
    const int64_t start = clamped(call.integer("start").value_or(0)),
                  end = clamped(call.integer("end").value_or(kEndless));
    found.push_back(end - start);
  } else if (name == "aten::split" || name == "aten::unsafe_split") {
    const int64_t size = size_along(*self, call.integer("dim").value_or(0)),
                  each = std::max<int64_t>(call.integer("split_size").value_or(1), 1),
                  pieces = (size + each - 1) / each;
    found = {pieces * each - size, size - (pieces - 1) * each - 1};
  } else if (name == "aten::roll") {
    const std::vector<int64_t> shifts = call.integers("shifts"), dims = call.integers("dims");
    for (size_t k = 0; k < shifts.size(); ++k) {
      int64_t size = 1;
      if (k < dims.size())
        size = size_along(*self, dims[k]);
      else
        for (int64_t of : self->sizes) size *= of;
      if (size == 0) continue;
      const int64_t rounds = shifts[k] / size - (shifts[k] % size < 0 ? 1 : 0);
      found.push_back(shifts[k] - rounds * size);
      found.push_back((rounds + 1) * size - 1 - shifts[k]);
    }
  } else if (name == "aten::topk" || name == "aten::kthvalue") {
    found = {size_along(*self, call.integer("dim").value_or(-1)) - call.integer("k").value_or(1)};
  } else if (name == "aten::diagonal" || name == "aten::trace") {
    const int64_t offset = call.integer("offset").value_or(0);
    found = {size_along(*self, call.integer("dim1").value_or(0)) - std::max<int64_t>(-offset, 0) -
             size_along(*self, call.integer("dim2").value_or(1)) + std::max<int64_t>(offset, 0)};
  } else if (name == "aten::bucketize" || name == "aten::searchsorted") {
    const record::TensorInfo* sorted = name == "aten::searchsorted" ? self : call.tensor(1);
    if (sorted == nullptr || sorted->sizes.empty()) return {};
    const int64_t count = sorted->sizes.back();
    const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(count)));
    found = {count - power, 2 * power - 1 - count};
  } else if (name == "aten::var" || name == "aten::std" || name == "aten::var_mean" ||
             name == "aten::std_mean") {
    const c10::IValue* correction = call.argument("correction");
    if (correction == nullptr || !correction->isScalar()) return {};
    int64_t count = 1;
    const std::vector<int64_t> dims = call.integers("dim");
    for (int64_t d : dims) count *= size_along(*self, d);
    if (dims.empty())
      for (int64_t of : self->sizes) count *= of;
    found = {count - static_cast<int64_t>(correction->toScalar().toDouble())};
  }
  return found;
}

/// The numbers that the call computes with, and that are no sizes.
std::vector<double> numbers_of(const Call& call, const record::Trace& trace) {
  std::vector<double> found;
  auto add = [&](const c10::Scalar& number) {
    found.push_back(number.isComplex() ? number.toComplexDouble().real() : number.toDouble());
  };
  const auto& arguments = call.op().op.schema().arguments();
  for (size_t k = 0; k < call.op().inputs.size(); ++k) {
    const record::Operand& operand = call.op().inputs[k];
    if (operand.kind == record::Operand::Kind::Constant) {
      const bool computes =
          k < arguments.size() && (*arguments[k].type() == *c10::NumberType::get() ||
                                   *arguments[k].type() == *c10::FloatType::get());
      if (computes && operand.constant.isScalar()) add(operand.constant.toScalar());
      continue;
    }
    for (int t : operand.tensors)
      if (t >= 0 && trace.tensors[static_cast<size_t>(t)].constant)
        add(*trace.tensors[static_cast<size_t>(t)].constant);
  }
  return found;
}

/// Of the call's first result; none where it has none.
std::optional<c10::ScalarType> result_type(const Call& call, const record::Trace& trace) {
  for (const record::Operand& output : call.op().outputs)
    for (int t : output.tensors)
      if (t >= 0) return trace.tensors[static_cast<size_t>(t)].dtype;
  return std::nullopt;
}

/// Can the number be rounded, or wrap around, on its way into a result of that type?
bool is_rounded(double number, c10::ScalarType type, std::string_view by) {
  if (number != std::floor(number)) return false;  // its formula says how it is rounded
  if (by == "aten::div" && c10::isReducedFloatingType(type)) type = c10::ScalarType::Float;
  if (c10::elementSize(type) < 4) return true;
  return type == c10::ScalarType::Float && std::abs(number) > kExactInSingle;
}

}  // namespace

Regimes::Regimes(std::span<const Point> points, std::span<const record::Trace* const> traces) {
  const record::Trace& first = *traces.front();
  for (const record::Trace* trace : traces)
    if (trace->ops.size() != first.ops.size())
      throw std::runtime_error("the function called other operators at other sizes");
  for (size_t k = 0; k < first.ops.size(); ++k) {
    std::vector<std::vector<int64_t>> borders;
    std::vector<std::vector<double>> numbers;
    for (const record::Trace* trace : traces) {
      const Call call(*trace, trace->ops[k]);
      borders.push_back(compared(call));
      numbers.push_back(numbers_of(call, *trace));
      if (borders.back().size() != borders[0].size() || numbers.back().size() != numbers[0].size())
        throw std::runtime_error("the function called other operators at other sizes");
    }
    const std::string name = first.ops[k].op.operator_name().name;
    for (size_t i = 0; i < numbers[0].size(); ++i) {
      const bool varies = std::any_of(numbers.begin(), numbers.end(),
                                      [&](const auto& of) { return of[i] != numbers[0][i]; });
      const auto type = result_type(Call(first, first.ops[k]), first);
      if (varies && type && std::any_of(numbers.begin(), numbers.end(), [&](const auto& of) {
            return is_rounded(of[i], *type, name);
          }))
        throw std::runtime_error("a number that " + name +
                                 " takes follows the sizes, and is rounded to its result's type");
    }
    for (size_t i = 0; i < borders[0].size(); ++i) {
      std::vector<int64_t> values;
      for (const auto& of : borders) values.push_back(of[i]);
      const bool below = std::any_of(values.begin(), values.end(), [](int64_t v) { return v < 0; });
      if (below) {
        if (std::any_of(values.begin(), values.end(), [](int64_t v) { return v > 0; }))
          throw std::runtime_error(name + " works otherwise at some of the sizes");
        for (int64_t& value : values) value = -value;
      }
      auto formula = explain(points, values, ir::NumberKind::Exact);
      if (!formula)
        throw std::runtime_error(name + " compares " + list(values) +
                                 ", which does not follow the sizes");
      if (!formula->is_constant()) not_negative_.push_back(std::move(*formula));
    }
  }
}

bool Regimes::hold(std::span<const int64_t> point) const {
  return std::all_of(not_negative_.begin(), not_negative_.end(), [&](const Formula& formula) {
    const auto value = formula.at(point);
    return value && *value >= 0;
  });
}

}  // namespace graft::runtime
