#include "runtime/family/regimes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>

#include "ops/schema.h"
#include "ops/thresholds.h"

namespace graft::runtime {

namespace {

/// Integers up to here are exact in fp32.
constexpr int64_t kExactInSingle = 1 << 24;
/// Where a slice may end that ends nowhere.
constexpr int64_t kEndless = int64_t{1} << 60;

/// An operator of one record.
struct Call {
  const record::Trace& trace;
  const record::OperatorRecord& op;

  const std::string& name() const { return op.op.operator_name().name; }
  int64_t integer(std::string_view name, int64_t otherwise) const {
    return ops::integer(op, name, otherwise);
  }
  /// Of the k-th input; null where that is no tensor.
  const record::TensorInfo* tensor(size_t k) const {
    if (k >= op.inputs.size() || op.inputs[k].tensors.size() != 1 || op.inputs[k].tensors[0] < 0)
      return nullptr;
    return &trace.tensors[static_cast<size_t>(op.inputs[k].tensors[0])];
  }
};

int64_t size_along(const record::TensorInfo& tensor, int64_t dim) {
  const auto rank = static_cast<int64_t>(tensor.sizes.size());
  if (rank == 0) return 1;
  return tensor.sizes[static_cast<size_t>(dim < 0 ? dim + rank : dim)];
}

/// A number that ATen compares with zero. Where it is zero both sides come to the same, unless
/// `strict`: then zero is on the side below.
struct Border {
  int64_t value;
  bool strict = false;
};
using Borders = std::vector<Border>;

/// Lowerings follow ATen below a threshold alone: above it is ATen's own call that runs.
void add_below(Borders& to, int64_t threshold, int64_t value) {
  if (value < threshold) to.push_back({threshold - value, true});
}

Borders of_slice(const Call& call, const record::TensorInfo& self) {
  Borders found;
  const int64_t size = size_along(self, call.integer("dim", 0));
  auto clamped = [&](int64_t place) {
    if (place >= kEndless) place = size;
    if (place < 0) place += size;
    found.push_back({place}), found.push_back({size - place});
    return std::clamp<int64_t>(place, 0, size);
  };
  const int64_t start = clamped(call.integer("start", 0)),
                end = clamped(call.integer("end", kEndless));
  found.push_back({end - start});
  return found;
}

Borders of_split(const Call& call, const record::TensorInfo& self) {
  const int64_t size = size_along(self, call.integer("dim", 0)),
                each = std::max<int64_t>(call.integer("split_size", 1), 1),
                pieces = (size + each - 1) / each;
  return {{pieces * each - size}, {size - (pieces - 1) * each, true}};
}

Borders of_roll(const Call& call, const record::TensorInfo& self) {
  Borders found;
  const std::vector<int64_t> shifts = ops::integers(call.op, "shifts"),
                             dims = ops::integers(call.op, "dims");
  for (size_t k = 0; k < shifts.size(); ++k) {
    int64_t size = 1;
    if (k < dims.size())
      size = size_along(self, dims[k]);
    else
      for (int64_t of : self.sizes) size *= of;
    // How often it goes round is no formula of the sizes.
    if (std::abs(shifts[k]) >= size && size > 0)
      throw std::runtime_error("aten::roll shifts by " + std::to_string(shifts[k]) +
                               " along a dimension of " + std::to_string(size));
    found.push_back({-shifts[k], true});
    found.push_back({size - std::abs(shifts[k]), true});
  }
  return found;
}

Borders of_top(const Call& call, const record::TensorInfo& self) {
  return {{size_along(self, call.integer("dim", -1)) - call.integer("k", 1)}};
}

Borders of_sort(const Call& call, const record::TensorInfo& self) {
  Borders found;
  add_below(found, ops::kInsertionSorted + 1, size_along(self, call.integer("dim", -1)));
  return found;
}

Borders of_diagonal(const Call& call, const record::TensorInfo& self) {
  const int64_t offset = call.integer("offset", 0),
                rows = size_along(self, call.integer("dim1", 0)) - std::max<int64_t>(-offset, 0),
                columns = size_along(self, call.integer("dim2", 1)) - std::max<int64_t>(offset, 0);
  return {{offset}, {rows}, {columns}, {rows - columns}};
}

/// A search takes a step more from each power of two on.
Borders of_search(const record::TensorInfo* sorted) {
  if (sorted == nullptr || sorted->sizes.empty()) return {};
  const int64_t count = sorted->sizes.back();
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(count)));
  return {{count - power}, {2 * power - count, true}};
}

Borders of_variance(const Call& call, const record::TensorInfo& self) {
  const std::optional<c10::Scalar> correction = ops::number(call.op, "correction");
  if (!correction) return {};
  int64_t count = 1;
  const std::vector<int64_t> dims = ops::integers(call.op, "dim");
  for (int64_t d : dims) count *= size_along(self, d);
  if (dims.empty())
    for (int64_t of : self.sizes) count *= of;
  return {{count - static_cast<int64_t>(correction->toDouble())}};
}

Borders of_distance(const Call& call, const record::TensorInfo& a, const record::TensorInfo* b) {
  Borders found;
  if (call.integer("compute_mode", 0) != 0 || b == nullptr) return {};
  for (const record::TensorInfo* of : {&a, b})
    add_below(found, ops::kMostRows + 1, size_along(*of, -2));
  return found;
}

/// What at::cdist calls for many rows.
Borders of_distance_by_product(const record::TensorInfo& a, const record::TensorInfo* b) {
  if (b == nullptr) return {};
  return {{std::max(size_along(a, -2), size_along(*b, -2)) - ops::kMostRows, true}};
}

Borders compared(const Call& call) {
  const record::TensorInfo *self = call.tensor(0), *other = call.tensor(1);
  const std::string_view name = call.name();
  if (self == nullptr) return {};
  if (name == "aten::slice") return of_slice(call, *self);
  if (name == "aten::split" || name == "aten::unsafe_split") return of_split(call, *self);
  if (name == "aten::roll") return of_roll(call, *self);
  if (name == "aten::topk" || name == "aten::kthvalue") return of_top(call, *self);
  if (name == "aten::sort") return of_sort(call, *self);
  if (name == "aten::diagonal" || name == "aten::trace") return of_diagonal(call, *self);
  if (name == "aten::searchsorted") return of_search(self);
  if (name == "aten::bucketize") return of_search(other);
  if (name == "aten::var" || name == "aten::std" || name == "aten::var_mean" ||
      name == "aten::std_mean")
    return of_variance(call, *self);
  if (name == "aten::_cdist_forward") return of_distance(call, *self, other);
  if (name == "aten::_euclidean_dist") return of_distance_by_product(*self, other);
  return {};
}

/// Does the argument's value take part in arithmetic?
bool is_number(const c10::Argument& argument) {
  c10::TypePtr type = argument.type();
  if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  return *type == *c10::NumberType::get() || *type == *c10::FloatType::get();
}

/// The numbers that the call computes with, and that are no sizes.
std::vector<double> numbers_of(const Call& call) {
  std::vector<double> found;
  auto add = [&](const c10::Scalar& number) {
    found.push_back(number.isComplex() ? number.toComplexDouble().real() : number.toDouble());
  };
  const auto& arguments = call.op.op.schema().arguments();
  for (size_t k = 0; k < call.op.inputs.size(); ++k) {
    const record::Operand& operand = call.op.inputs[k];
    if (operand.kind == record::Operand::Kind::Constant) {
      if (k < arguments.size() && is_number(arguments[k]) && operand.constant.isScalar())
        add(operand.constant.toScalar());
      continue;
    }
    for (int t : operand.tensors)
      if (t >= 0 && call.trace.tensors[static_cast<size_t>(t)].constant)
        add(*call.trace.tensors[static_cast<size_t>(t)].constant);
  }
  return found;
}

/// What the call's numbers are rounded to: its first result's dtype, or of a comparison its first
/// operand's. None where there is no such tensor.
std::optional<c10::ScalarType> type_of(const Call& call) {
  auto first = [&](const std::vector<record::Operand>& operands) {
    for (const record::Operand& operand : operands)
      for (int t : operand.tensors)
        if (t >= 0 && !call.trace.tensors[static_cast<size_t>(t)].wrapped_number)
          return std::optional(call.trace.tensors[static_cast<size_t>(t)].dtype);
    return std::optional<c10::ScalarType>();
  };
  const auto made = first(call.op.outputs);
  return made == c10::ScalarType::Bool ? first(call.op.inputs) : made;
}

double as_single(double number) {
  return static_cast<double>(static_cast<float>(number));
}

/// What the records' numbers say of others: an empty string, or why they cannot be told. Adds how
/// far they are from where they would be rounded.
std::string follow(std::span<const double> numbers, c10::ScalarType type, std::string_view by,
                   std::vector<Borders>& borders) {
  auto all_are = [&](double (*of)(double)) {
    return std::all_of(numbers.begin(), numbers.end(),
                       [&](double n) { return of(n) == of(numbers[0]); });
  };
  if (all_are([](double n) { return n; })) return {};
  // ATen divides by the number in fp32.
  if (by == "aten::div" && c10::isReducedFloatingType(type)) type = c10::ScalarType::Float;
  const bool rounded =
      c10::elementSize(type) < 4 || (type == c10::ScalarType::Float && all_are(as_single));
  if (rounded)
    return "a number that " + std::string(by) + " takes follows the sizes, and is rounded";
  if (type != c10::ScalarType::Float) return {};
  if (std::any_of(numbers.begin(), numbers.end(), [](double n) { return n != std::floor(n); }))
    return {};  // its formula says how it is rounded
  for (size_t k = 0; k < numbers.size(); ++k)
    borders[k].push_back({kExactInSingle - static_cast<int64_t>(std::abs(numbers[k]))});
  return {};
}

}  // namespace

Regimes::Regimes(std::span<const Point> points, std::span<const record::Trace* const> traces) {
  const record::Trace& first = *traces.front();
  const char* const kOthers = "the function called other operators at other sizes";
  for (const record::Trace* trace : traces)
    if (trace->ops.size() != first.ops.size()) throw std::runtime_error(kOthers);
  std::set<std::pair<std::vector<int64_t>, bool>> known;
  for (size_t k = 0; k < first.ops.size(); ++k) {
    const std::string& name = first.ops[k].op.operator_name().name;
    std::vector<Borders> borders;
    std::vector<std::vector<double>> numbers;
    for (const record::Trace* trace : traces) {
      const Call call{*trace, trace->ops[k]};
      if (call.name() != name) throw std::runtime_error(kOthers);
      borders.push_back(compared(call));
      numbers.push_back(numbers_of(call));
      if (borders.back().size() != borders[0].size() || numbers.back().size() != numbers[0].size())
        throw std::runtime_error(name + " works otherwise at some of the sizes");
    }
    const auto type = type_of({first, first.ops[k]});
    for (size_t i = 0; type && i < numbers[0].size(); ++i) {
      std::vector<double> each;
      for (const auto& of : numbers) each.push_back(of[i]);
      if (std::string why = follow(each, *type, name, borders); !why.empty())
        throw std::runtime_error(why);
    }
    for (size_t i = 0; i < borders[0].size(); ++i) {
      std::vector<int64_t> values;
      for (const Borders& of : borders) values.push_back(of[i].value);
      if (known.emplace(values, borders[0][i].strict).second)
        add(points, std::move(values), borders[0][i].strict, name);
    }
  }
}

void Regimes::add(std::span<const Point> points, std::vector<int64_t> values, bool strict,
                  const std::string& name) {
  const bool above = std::any_of(values.begin(), values.end(), [](int64_t v) { return v > 0; }),
             below = std::any_of(values.begin(), values.end(),
                                 [&](int64_t v) { return strict ? v <= 0 : v < 0; });
  if (above && below) throw std::runtime_error(name + " works otherwise at some of the sizes");
  if (below)
    for (int64_t& value : values) value = -value;
  auto formula = explain(points, values, ir::NumberKind::Exact);
  if (!formula)
    throw std::runtime_error(name + " compares " + list(values) +
                             ", which does not follow the sizes");
  if (formula->is_constant()) return;
  bounded_.add(std::move(*formula));
  least_.push_back(strict && !below ? 1 : 0);
}

bool Regimes::hold(std::span<const int64_t> point) const {
  Formulas::Values values;
  return bounded_.at(point, values) &&
         std::equal(values.begin(), values.end(), least_.begin(), std::greater_equal<>());
}

}  // namespace graft::runtime
