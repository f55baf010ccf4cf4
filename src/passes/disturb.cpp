#include "passes/disturb.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "ir/builder.h"
#include "passes/rewrite.h"
#include "tensor/dtype.h"

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

/// One element for each of the statement's results.
ir::View per_result(ir::Program& program, const Statement& s) {
  std::vector<int64_t> sizes = s.axes;
  for (size_t a = 0; a < sizes.size(); ++a)
    if (s.reduction->axes[a]) sizes[a] = 1;
  ir::Storage storage;
  storage.bytes = ir::numel(sizes) * static_cast<int64_t>(c10::elementSize(s.reduction->type));
  program.storages.push_back(storage);
  return {static_cast<int>(program.storages.size()) - 1, s.reduction->type, 0, sizes,
          ir::contiguous_strides(sizes)};
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

/// Is the place of a result odd, counted along all axes that are kept?
std::optional<Value> odd_place(StatementBuilder& s, const ir::Reduction& reduction) {
  std::optional<Value> sum;
  for (size_t a = 0; a < reduction.axes.size(); ++a) {
    if (reduction.axes[a] || s.statement.axes[a] == 1) continue;
    const Value axis = s.axis(static_cast<int>(a));
    sum = sum ? *sum + axis : axis;
  }
  if (!sum) return std::nullopt;
  return ne(*sum & s.integer(1, ScalarType::Long), s.integer(0, ScalarType::Long));
}

/// The part of what is added, or multiplied, that eager may lose.
double lost(const Statement& s) {
  const auto n = static_cast<double>(reduced_points(s));
  if (s.reduction->op == ReduceOp::Prod) return rounding(s) * std::sqrt(n);
  return rounding(s) * (4 + std::sqrt(n) / 16);
}

/// Moves the reduction of `s` by the part `steps` of `added`, the magnitudes of its terms, or of
/// itself where it is a product.
void move(Statement& s, const std::optional<ir::View>& added, double steps, double even,
          double odd) {
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
    Value direction = builder.scalar(even, type);
    if (const auto is_odd = odd_place(builder, reduction))
      direction = select(*is_odd, builder.scalar(odd, type), direction);
    const NodeId moved = (reduced + direction * by).id;
    std::swap(builder.statement.expr, out);
    return moved;
  });
  if (added) s.loads.push_back(std::move(builder.statement.loads.back()));
  s.scalars = std::move(builder.statement.scalars);
}

}  // namespace

ir::Program disturb(ir::Program program, int which) {
  std::vector<ir::Item> items;
  int sums = 0;
  for (ir::Item& item : program.items) {
    auto* statement = std::get_if<Statement>(&item);
    if (statement != nullptr && is_rounded(*statement)) {
      std::optional<ir::View> added;
      if (statement->reduction->op == ReduceOp::Sum) {
        added = per_result(program, *statement);
        items.emplace_back(magnitudes(*statement, *added));
      }
      const bool strong = which >= kDisturbances - kStrongDisturbances;
      constexpr int kWays = 3;
      const bool back = which > kWays && !strong;
      const int way = back ? which - kWays : which;
      const bool turns = way == 3 || which == kDisturbances - 1;
      const double up = way == 2 && sums++ % 2 == 1 ? -1 : 1;
      const double even = which == 0 ? 0 : back ? -up : up;
      const double steps = (strong ? kStrong : 1) * lost(*statement);
      move(*statement, added, steps, even, turns ? -even : even);
    }
    items.push_back(std::move(item));
  }
  program.items = std::move(items);
  return program;
}

}  // namespace graft::passes
