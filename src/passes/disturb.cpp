#include "passes/disturb.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "ir/builder.h"
#include "passes/rewrite.h"
#include "tensor/dtype.h"
#include "tensor/linalg.h"

namespace graft::passes {

namespace {

using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::ReduceOp;
using ir::Statement;
using ir::StatementBuilder;
using ir::Value;

bool is_rounded(const Statement& s) {
  return s.reduction && !s.reduction->scan && is_float(s.reduction->type) &&
         (s.reduction->op == ReduceOp::Sum || s.reduction->op == ReduceOp::Prod);
}

/// What eager rounds each partial sum to: float, unless all that is added is double. Products it
/// keeps in the result's own type.
double rounding(const Statement& s) {
  if (s.reduction->op == ReduceOp::Prod) return epsilon(s.store.dtype);
  const bool wide = std::all_of(s.loads.begin(), s.loads.end(), [](const ir::Access& load) {
    return load.dtype == ScalarType::Double;
  });
  return epsilon(wide ? ScalarType::Double : ScalarType::Float);
}

ir::View temporary(ir::Program& program, const std::vector<int64_t>& sizes, ScalarType type) {
  ir::Storage storage;
  storage.bytes = ir::numel(sizes) * static_cast<int64_t>(c10::elementSize(type));
  program.storages.push_back(storage);
  return {static_cast<int>(program.storages.size()) - 1, type, 0, sizes,
          ir::contiguous_strides(sizes)};
}

/// One element for each of the statement's results.
ir::View per_result(ir::Program& program, const Statement& s) {
  std::vector<int64_t> sizes = s.axes;
  for (size_t a = 0; a < sizes.size(); ++a)
    if (s.reduction->axes[a]) sizes[a] = 1;
  return temporary(program, sizes, s.reduction->type);
}

Statement magnitudes(const Statement& from, const ir::View& to) {
  StatementBuilder s(from.axes);
  s.statement.loads = from.loads;
  s.statement.scalars = from.scalars;
  s.statement.expr = from.expr;
  s.statement.record = from.record;
  const Value input{&s, from.reduction->input};
  std::vector<bool> axes = from.reduction->axes;
  const ScalarType type = from.reduction->type;
  Statement made =
      s.store(to, s.reduce(ReduceOp::Sum, input.to(type).op(Op::Abs), std::move(axes), type));
  compact(made);
  return made;
}

/// Is the place of a result odd, counted along all axes but those `reduced`?
std::optional<Value> odd_place(StatementBuilder& s, const std::vector<bool>& reduced) {
  std::optional<Value> sum;
  for (size_t a = 0; a < s.statement.axes.size(); ++a) {
    if ((a < reduced.size() && reduced[a]) || s.statement.axes[a] == 1) continue;
    const Value axis = s.axis(static_cast<int>(a));
    sum = sum ? *sum + axis : axis;
  }
  if (!sum) return std::nullopt;
  return ne(*sum & s.integer(1, ScalarType::Long), s.integer(0, ScalarType::Long));
}

/// Units that ATen's sums of so many terms may lose of their magnitudes.
double lost_units(int64_t terms) {
  return 4 + std::sqrt(static_cast<double>(terms)) / 16;
}

/// The part of what is added, or multiplied, that eager may lose.
double lost(const Statement& s) {
  const int64_t n = reduced_points(s);
  if (s.reduction->op == ReduceOp::Prod) return rounding(s) * std::sqrt(static_cast<double>(n));
  return rounding(s) * lost_units(n);
}

/// How far a disturbance goes at even and at odd places, in parts of what is lost.
struct Direction {
  double even, odd;
  Value at(StatementBuilder& s, ScalarType type, const std::vector<bool>& reduced) const {
    const Value up = s.scalar(even, type);
    const auto is_odd = odd_place(s, reduced);
    return is_odd ? select(*is_odd, s.scalar(odd, type), up) : up;
  }
};

/// `by` where that is a number: what is infinite stays.
Value if_finite(Value by) {
  return select(le(by, by.like(std::numeric_limits<float>::max())), by, by.like(0));
}

/// Moves the reduction of `s` by the part `steps` of `added`, the magnitudes of its terms, or of
/// itself where it is a product.
void move(Statement& s, const std::optional<ir::View>& added, double steps, Direction to) {
  const ir::Reduction& reduction = *s.reduction;
  const ScalarType type = reduction.type;
  const double last = std::max(rounding(s), epsilon(s.store.dtype));
  StatementBuilder builder(s.axes);
  builder.statement.loads = s.loads;
  builder.statement.scalars = s.scalars;
  rebuild(s, [&](ir::Expr& out, const Node& node) {
    if (node.op != Op::Reduced) return out.add(node);
    std::swap(builder.statement.expr, out);
    const Value reduced{&builder, builder.statement.expr.add(node)};
    Value by = reduced.op(Op::Abs) * builder.scalar(last + (added ? 0 : steps), type);
    if (added) by = by + builder.load(*added) * builder.scalar(steps, type);
    by = if_finite(by);
    const NodeId moved = (reduced + to.at(builder, type, reduction.axes) * by).id;
    std::swap(builder.statement.expr, out);
    return moved;
  });
  if (added) s.loads.push_back(std::move(builder.statement.loads.back()));
  s.scalars = std::move(builder.statement.scalars);
}

/// Moves numbers of which nothing else is known by a part of these.
Statement moved(int record, const ir::View& from, const ir::View& out, int64_t terms,
                double strength, Direction to) {
  const ScalarType type = opmath(from.dtype);
  StatementBuilder s(from.sizes);
  s.statement.record = record;
  const Value made = s.load(from).to(type);
  const double part =
      std::max(epsilon(type), epsilon(from.dtype)) + epsilon(type) * strength * lost_units(terms);
  const Value by = if_finite(made.op(Op::Abs) * s.scalar(part, type));
  Statement statement = s.store(out, (made + to.at(s, type, {}) * by).to(from.dtype));
  compact(statement);
  return statement;
}

/// The longest rows of its operands.
int64_t most_terms(const ir::Extern& call) {
  int64_t most = 1;
  for (const ir::View& in : call.inputs)
    if (!in.sizes.empty()) most = std::max(most, in.sizes.back());
  return most;
}

}  // namespace

ir::Program disturb(ir::Program program, int which, const std::map<int, int64_t>& written_out) {
  const bool strong = which >= kDisturbances - kStrongDisturbances;
  const bool back = which > kWays && !strong;
  const int way = back ? which - kWays : which;
  const bool turns = way == kWays || which == kDisturbances - 1;
  const double strength = strong ? kStrong : 1;
  std::vector<ir::Item> items;
  int sums = 0;
  auto direction = [&] {
    const double up = way == 2 && sums++ % 2 == 1 ? -1 : 1;
    const double even = which == 0 ? 0 : back ? -up : up;
    return Direction{even, turns ? -even : even};
  };
  for (ir::Item& item : program.items) {
    auto* statement = std::get_if<Statement>(&item);
    if (statement != nullptr && is_rounded(*statement)) {
      std::optional<ir::View> added;
      if (statement->reduction->op == ReduceOp::Sum) {
        added = per_result(program, *statement);
        items.emplace_back(magnitudes(*statement, *added));
      }
      move(*statement, added, strength * lost(*statement), direction());
    }
    std::vector<Statement> after;
    auto move_results = [&](int record, const ir::View& out, int64_t terms) {
      if (is_float(out.dtype))
        after.push_back(moved(record, out, out, terms, strength, direction()));
    };
    if (auto* call = std::get_if<ir::Extern>(&item);
        call != nullptr && rounds_as_lapack(call->op.name)) {
      ir::View& matrices = call->inputs.front();
      ir::View other = temporary(program, matrices.sizes, matrices.dtype);
      // Some factor the transposed matrices of a contiguous tensor.
      if (matrices.strides != other.strides) other.strides = column_major_strides(other.sizes);
      items.emplace_back(
          moved(call->record, matrices, other, matrices.sizes.back(), strength, direction()));
      matrices = other;
    }
    if (const auto* call = std::get_if<ir::Extern>(&item); call != nullptr && call->may_be_loops)
      for (const ir::View& out : call->outputs) move_results(call->record, out, most_terms(*call));
    if (const auto product =
            statement != nullptr ? written_out.find(statement->record) : written_out.end();
        product != written_out.end()) {
      const ir::Access& store = statement->store;
      const auto size = static_cast<int64_t>(c10::elementSize(store.dtype));
      move_results(
          statement->record,
          {store.storage, store.dtype, store.offset * size, statement->axes, store.strides},
          product->second);
    }
    items.push_back(std::move(item));
    for (Statement& s : after) items.emplace_back(std::move(s));
  }
  program.items = std::move(items);
  return program;
}

}  // namespace graft::passes
