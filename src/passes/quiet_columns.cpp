#include "passes/quiet_columns.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "ir/builder.h"
#include "ir/touch.h"
#include "passes/kernel_loops.h"
#include "passes/rewrite.h"

namespace graft::passes {

using ir::Access;
using ir::Kernel;
using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::Placed;
using ir::Statement;

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// What is demanded to be finite: of a row, read by the statement placed there.
struct Demand {
  size_t placed;
  Access load;
  int version;  ///< of its storage
};
/// A storage of which each row is `value` where the mask leaves it out, if the demands are met.
struct Outside {
  double value;
  int64_t offset;
  std::vector<Demand> demands;
};

/// A statement that is quiet; its bounds are left open.
struct Found {
  size_t placed;
  Placed::Quiet quiet;
  std::vector<Access> inherited;  ///< more that has to be finite: loads to add
};

class Quieting {
 public:
  Quieting(Kernel& kernel, const Reader& reader) : kernel_(kernel), reader_(reader) {
    columns_ = find_columns(kernel.placed[reader.placed]);
  }

  int64_t columns() const { return columns_; }
  /// Does the reader walk the columns as the product stores them, and so as the bytes lie?
  bool is_in_order() {
    const Placed& p = kernel_.placed[reader_.placed];
    find_columns(p);
    return walks_columns(p.statement, p.statement.loads[reader_.load]);
  }

  /// The statements that are quiet, with what they store and demand.
  std::vector<Found> find() {
    std::vector<Found> found;
    bool begun = false;
    ir::each_placed(kernel_.body, [&](size_t k) {
      begun = begun || k == reader_.placed;
      if (!begun) return;
      const Placed& p = kernel_.placed[k];
      const Access& store = p.statement.store;
      const std::optional<Placed::Quiet> quiet = quiet_of(kernel_.placed[k]);
      // A row whose columns are two axes is stored whole; what it is outside is known all the same.
      const bool whole = columns_here_.size() != 1;
      ++versions_[store.storage];
      if (quiet && !whole) found.push_back({k, *quiet, inherited_loads(p)});
      std::optional<std::vector<Demand>> demands;
      if (quiet && !p.statement.reduction) demands = all_demands(k, *quiet);
      if (demands && !(whole && !demands->empty()))
        outside_[store.storage] = {quiet->value, store.offset, std::move(*demands)};
      else
        outside_.erase(store.storage);
    });
    return found;
  }

 private:
  std::optional<Placed::Quiet> quiet_of(const Placed& p) {
    const Statement& s = p.statement;
    const auto is_plain = [](const Access& access) { return access.indirect.empty(); };
    if (p.product || s.repeated() || !is_plain(s.store) ||
        !std::all_of(s.loads.begin(), s.loads.end(), is_plain))
      return {};
    if (find_columns(p) != columns_ || columns_here_.empty()) return {};
    finite_.clear();
    inherited_.clear();
    if (s.reduction) {
      const ir::ReduceOp op = s.reduction->op;
      for (size_t a = 0; a < s.axes.size(); ++a)
        if (s.reduction->axes[a] != is_column(p, a)) return {};
      const std::optional<double> added = value_of(p, s.reduction->input);
      const bool nothing = added && ((op == ir::ReduceOp::Sum && *added == 0) ||
                                     (op == ir::ReduceOp::Max && *added == -kInfinite));
      if (!nothing || s.reduction->scan) return {};
      return Placed::Quiet{-1, -1, 0, finite_};
    }
    const bool fits = s.store.dtype == ScalarType::Float || is_half(s.store.dtype);
    if (!fits || !walks_columns(s, s.store)) return {};
    const std::optional<double> stored = value_of(p, s.value);
    if (!stored) return {};
    return Placed::Quiet{-1, -1, *stored, finite_};
  }

  /// Notes the statement's axes of columns, and gives how many columns there are.
  int64_t find_columns(const Placed& p) {
    columns_here_.clear();
    int64_t count = 1;
    for (size_t a = 0; a < p.axis_var.size(); ++a)
      if (is_column(p, a)) columns_here_.push_back(a), count *= p.statement.axes[a];
    return count;
  }
  bool is_row(const Placed& p, size_t axis) const {
    return kernel_.vars[static_cast<size_t>(p.axis_var[axis])].kind == ir::LoopKind::Step;
  }
  bool is_column(const Placed& p, size_t axis) const {
    return !is_outer(kernel_, reader_, p.axis_var[axis]) && !is_row(p, axis);
  }
  /// Do columns lie side by side, in the order of the statement's axes?
  bool walks_columns(const Statement& s, const Access& access) const {
    int64_t stride = 1;
    for (size_t c = columns_here_.size(); c-- > 0;) {
      if (access.strides[columns_here_[c]] != stride) return false;
      stride *= s.axes[columns_here_[c]];
    }
    return true;
  }

  const Node& node(const Placed& p, NodeId id) const {
    return p.statement.expr.nodes[static_cast<size_t>(id)];
  }

  bool varies(const Placed& p, NodeId id) const {
    return std::any_of(columns_here_.begin(), columns_here_.end(), [&](size_t a) -> bool {
      return varying_along(p.statement, a)[static_cast<size_t>(id)];
    });
  }
  /// The demands that the statement's stored value rests on; none where one is no plain load.
  std::optional<std::vector<Demand>> all_demands(size_t k, const Placed::Quiet& quiet) const {
    const Placed& p = kernel_.placed[k];
    std::vector<Demand> demands = inherited_;
    for (NodeId id : quiet.finite) {
      const Node& n = node(p, id);
      if (n.op != Op::Load) return {};
      const Access& load = p.statement.loads[static_cast<size_t>(n.payload)];
      demands.push_back({k, load, version(load.storage)});
    }
    return demands;
  }
  int version(int storage) const {
    const auto found = versions_.find(storage);
    return found == versions_.end() ? 0 : found->second;
  }
  /// Takes over what a value that the statement loads rests on; false where it cannot be asked for.
  bool inherit(const Placed& p, const std::vector<Demand>& demands) {
    for (const Demand& d : demands) {
      if (version(d.load.storage) != d.version || !as_load(p, d)) return false;
      inherited_.push_back(d);
    }
    return true;
  }
  /// The demanded load over the axes of another statement in the same row.
  std::optional<Access> as_load(const Placed& p, const Demand& d) const {
    const Placed& from = kernel_.placed[d.placed];
    if (!d.load.indirect.empty()) return {};
    Access load = d.load;
    load.strides.assign(p.axis_var.size(), 0);
    for (size_t a = 0; a < d.load.strides.size(); ++a) {
      if (d.load.strides[a] == 0) continue;
      const int there = axis_of(p, from.axis_var[a]);
      if (there < 0) return {};
      load.strides[static_cast<size_t>(there)] = d.load.strides[a];
    }
    return load;
  }
  std::vector<Access> inherited_loads(const Placed& p) const {
    std::vector<Access> loads;
    for (const Demand& d : inherited_) loads.push_back(*as_load(p, d));
    return loads;
  }

  /// Demands that the value, the same for the whole row and not known, is a finite number. (Not of
  /// narrow ones, whose registers hold integers.)
  bool demand(const Placed& p, NodeId id) {
    const ScalarType type = node(p, id).type;
    if (!is_float(type) || is_reduced(type) || varies(p, id)) return false;
    if (std::find(finite_.begin(), finite_.end(), id) == finite_.end()) finite_.push_back(id);
    return true;
  }

  /// What the node is where the mask leaves the column out (but for the sign of zero).
  std::optional<double> value_of(const Placed& p, NodeId id) {
    const ScalarType type = node(p, id).type;
    const std::optional<double> exact = exact_value_of(p, id);
    if (!exact || !is_float(type) || type == ScalarType::Double) return exact;
    return rounded_to(*exact, type);
  }
  std::optional<double> exact_value_of(const Placed& p, NodeId id) {
    const Node& n = node(p, id);
    const auto in = [&](size_t k) { return value_of(p, n.in[k]); };
    switch (n.op) {
      case Op::Const:
        return ir::constant_value(n);
      case Op::Scalar:
        if (!is_float(n.type)) return {};
        return std::bit_cast<double>(p.statement.scalars[static_cast<size_t>(n.payload)]);
      case Op::Cast:
        return is_float(n.type) && is_float(node(p, n.in[0]).type) ? in(0) : std::nullopt;
      case Op::Load: {
        const Access& load = p.statement.loads[static_cast<size_t>(n.payload)];
        const auto found = outside_.find(load.storage);
        if (found == outside_.end() || !walks_columns(p.statement, load) ||
            load.offset != found->second.offset || !inherit(p, found->second.demands))
          return {};
        return found->second.value;
      }
      case Op::Select: {
        if (const std::optional<bool> met = is_met(p, n.in[0])) return in(*met ? 1 : 2);
        const std::optional<double> a = in(1), b = in(2);
        return a && b && *a == *b ? a : std::nullopt;
      }
      case Op::Sub:
      case Op::Add:
        return sum(p, n);
      case Op::Mul:
        return product(p, n);
      case Op::Call:
        if (ir::info(static_cast<ir::Routine>(n.payload)).function == std::string_view("exp") &&
            in(0) == -kInfinite)
          return 0;
        return {};
      default:
        return {};
    }
  }

  std::optional<double> sum(const Placed& p, const Node& n) {
    const double sign = n.op == Op::Sub ? -1 : 1;
    const std::optional<double> a = value_of(p, n.in[0]), b = value_of(p, n.in[1]);
    if (a && b) return *a + sign * *b;
    if (a && std::isinf(*a) && demand(p, n.in[1])) return a;
    if (b && std::isinf(*b) && demand(p, n.in[0])) return sign * *b;
    return {};
  }
  std::optional<double> product(const Placed& p, const Node& n) {
    const std::optional<double> a = value_of(p, n.in[0]), b = value_of(p, n.in[1]);
    if (a && b) return *a * *b;
    if (a && *a == 0 && demand(p, n.in[1])) return 0;
    if (b && *b == 0 && demand(p, n.in[0])) return 0;
    return {};
  }

  /// Is the condition known to hold, or not to, where the mask leaves the column out?
  std::optional<bool> is_met(const Placed& p, NodeId id) const {
    bool turned = false;
    while (node(p, id).op == Op::Not) id = node(p, id).in[0], turned = !turned;
    const Reader::Condition& known = reader_.conditions.front();
    if (column_extents(p) != column_extents(kernel_.placed[reader_.placed])) return {};
    if (!equal(p, id, kernel_.placed[reader_.placed], known.node)) return {};
    return known.holds == turned;  // there the condition is not met
  }

  /// Are the values equal at equal rows and columns?
  bool equal(const Placed& p, NodeId a, const Placed& q, NodeId b) const {
    const Node &x = node(p, a), &y = node(q, b);
    if (x.op != y.op || x.type != y.type) return false;
    if (x.op == Op::Load)
      return same_place(p, p.statement.loads[static_cast<size_t>(x.payload)], q,
                        q.statement.loads[static_cast<size_t>(y.payload)]);
    if (x.op == Op::Scalar)
      return p.statement.scalars[static_cast<size_t>(x.payload)] ==
             q.statement.scalars[static_cast<size_t>(y.payload)];
    if (x.op == Op::Axis)
      return role(p, static_cast<size_t>(x.payload)) == role(q, static_cast<size_t>(y.payload));
    if (x.op == Op::Reduced || x.payload != y.payload) return false;
    for (size_t k = 0; k < x.in.size(); ++k) {
      if ((x.in[k] < 0) != (y.in[k] < 0)) return false;
      if (x.in[k] >= 0 && !equal(p, x.in[k], q, y.in[k])) return false;
    }
    return true;
  }
  std::vector<int64_t> column_extents(const Placed& p) const {
    std::vector<int64_t> extents;
    for (size_t a = 0; a < p.axis_var.size(); ++a)
      if (is_column(p, a)) extents.push_back(p.statement.axes[a]);
    return extents;
  }
  /// Of an axis: the outer variable, or -1 for the row, or less for the columns, one by one.
  int role(const Placed& p, size_t axis) const {
    if (is_outer(kernel_, reader_, p.axis_var[axis])) return p.axis_var[axis];
    if (is_row(p, axis)) return -1;
    int place = -2;
    for (size_t a = 0; a < axis; ++a) place -= is_column(p, a);
    return place;
  }
  bool same_place(const Placed& p, const Access& x, const Placed& q, const Access& y) const {
    if (x.storage != y.storage || x.dtype != y.dtype || x.offset != y.offset ||
        !x.indirect.empty() || !y.indirect.empty())
      return false;
    std::map<int, int64_t> strides;
    for (size_t a = 0; a < x.strides.size(); ++a) strides[role(p, a)] += x.strides[a];
    for (size_t a = 0; a < y.strides.size(); ++a) strides[role(q, a)] -= y.strides[a];
    return std::all_of(strides.begin(), strides.end(),
                       [](const auto& stride) { return stride.second == 0; });
  }

  Kernel& kernel_;
  const Reader& reader_;
  int64_t columns_ = 1;
  std::map<int, Outside> outside_;
  std::map<int, int> versions_;  ///< by storage: how often it was stored to
  // Of the statement that is looked at:
  std::vector<size_t> columns_here_;  ///< axes
  std::vector<NodeId> finite_;
  std::vector<Demand> inherited_;
};

/// One of the two bounds: the least, or one more than the largest, of the columns that are needed.
/// Its nest goes to `nests`.
int add_bound(Kernel& kernel, std::vector<ir::Storage>& storages, const Access& bytes,
              int64_t columns, bool least, std::vector<ir::TreeNode>& nests) {
  const auto storage = static_cast<int>(storages.size());
  storages.push_back({ir::Role::Temporary, 8});
  add_scratch(kernel, storage, 8);
  ir::StatementBuilder s({columns});
  const ir::Value needed = s.load(bytes), at = s.axis(0);
  const ir::Value place = least ? select(needed, at, at.like(static_cast<double>(columns)))
                                : select(needed, at + 1, at.like(0));
  const ir::Value found =
      s.reduce(least ? ir::ReduceOp::Min : ir::ReduceOp::Max, place, {true}, ScalarType::Long);
  const auto var = static_cast<int>(kernel.vars.size());
  kernel.vars.push_back({columns, ir::LoopKind::Serial});
  nests.push_back(nested({var}, {nullptr, static_cast<int>(kernel.placed.size())}));
  kernel.placed.push_back({s.store(Access{storage, ScalarType::Long, 0, {0}, {}}, found), {var}});
  return storage;
}

NodeId add_load(Statement& s, Access load) {
  const ScalarType type = load.dtype;
  s.loads.push_back(std::move(load));
  return s.expr.add({Op::Load, type, {-1, -1, -1}, static_cast<int64_t>(s.loads.size()) - 1});
}

/// The axis of the block's rows, which the statement runs through one by one; -1: there is none.
int row_axis(const Kernel& kernel, const Reader& reader, const Placed& p) {
  for (size_t a = 0; a < p.axis_var.size(); ++a)
    if (p.axis_var[a] != reader.block &&
        kernel.vars[static_cast<size_t>(p.axis_var[a])].kind == ir::LoopKind::Step)
      return static_cast<int>(a);
  return -1;
}

/// Does the load read, in the same iteration of the rows' loop and at each column, what the other
/// statement stored for that row and column?
bool reads_its_column(const Kernel& kernel, const Reader& reader, const Placed& p,
                      const Access& load, const Placed& from) {
  const Access& store = from.statement.store;
  const int row = row_axis(kernel, reader, p), row_there = row_axis(kernel, reader, from);
  if (row < 0 || row_there < 0 || !load.indirect.empty() || load.offset != store.offset ||
      p.axis_var[static_cast<size_t>(row)] != from.axis_var[static_cast<size_t>(row_there)])
    return false;
  for (size_t a = 0; a < p.axis_var.size(); ++a) {
    const int64_t stride = static_cast<int>(a) == row
                               ? store.strides[static_cast<size_t>(row_there)]
                               : !is_outer(kernel, reader, p.axis_var[a]);
    if (load.strides[a] != stride) return false;
  }
  return true;
}

/// Is what the statement stores only read by quiet ones that come after it, of the same row?
bool is_read_by_quiet(const Kernel& kernel, const Reader& reader, const std::vector<Found>& found,
                      size_t of) {
  const Placed& from = kernel.placed[found[of].placed];
  const int storage = from.statement.store.storage;
  if (from.statement.reduction || !is_scratch(kernel, storage)) return false;
  for (size_t k = 0; k < kernel.placed.size(); ++k) {
    const Placed& p = kernel.placed[k];
    if (k != found[of].placed && p.statement.store.storage == storage) return false;
    const bool is_later =
        std::any_of(found.begin() + static_cast<std::ptrdiff_t>(of) + 1, found.end(),
                    [&](const Found& other) { return other.placed == k; });
    for (const Access& load : p.statement.loads)
      if (load.storage == storage && !(is_later && reads_its_column(kernel, reader, p, load, from)))
        return false;
  }
  return true;
}

/// A kernel that stores the largest magnitude of all that the access reads at each place of the
/// ranges, which is a finite number if all are, and the storage of that. `load`: how the statement
/// reads it.
Kernel largest_of(const Kernel& kernel, const Placed& p, const Access& of, Access& load,
                  std::vector<ir::Storage>& storages) {
  Kernel made;
  made.name = "map";
  std::vector<int64_t> axes;
  std::vector<bool> reduced;
  Access from{of.storage, of.dtype, of.offset, {}, {}};
  std::vector<int> axis_var, loops;
  for (const bool outer : {true, false})
    for (size_t a = 0; a < p.axis_var.size(); ++a) {
      if (of.strides[a] == 0 || is_range(kernel, p.axis_var[a]) != outer) continue;
      const auto var = static_cast<int>(made.vars.size());
      made.vars.push_back(
          {p.statement.axes[a], outer ? ir::LoopKind::Range : ir::LoopKind::Serial});
      axes.push_back(p.statement.axes[a]), reduced.push_back(!outer);
      from.strides.push_back(of.strides[a]), axis_var.push_back(var);
      if (outer)
        made.range.push_back(var);
      else
        loops.push_back(var);
    }
  load = {static_cast<int>(storages.size()), ScalarType::Float, 0, {}, {}};
  load.strides.assign(p.axis_var.size(), 0);
  Access store = load;
  store.strides.assign(axes.size(), 0);
  int64_t count = 1;
  for (size_t k = made.range.size(); k-- > 0; count *= axes[k]) store.strides[k] = count;
  size_t at = 0;
  for (size_t a = 0; a < p.axis_var.size(); ++a)
    if (of.strides[a] != 0 && is_range(kernel, p.axis_var[a]))
      load.strides[a] = store.strides[at++];
  storages.push_back({ir::Role::Temporary, count * 4});
  ir::StatementBuilder s(std::move(axes));
  const ir::Value value = s.load(std::move(from));
  const ir::Value largest = s.reduce(ir::ReduceOp::Max, value.to(ScalarType::Float).op(Op::Abs),
                                     reduced, ScalarType::Float);
  made.placed.push_back({s.store(std::move(store), largest), std::move(axis_var)});
  made.body.push_back(nested(loops, {nullptr, 0}));
  return made;
}

/// Of products that read rows that are zero outside.
void find_outside(Kernel& kernel, const Found& found, int first, int last, int64_t columns,
                  std::vector<ir::Storage>& storages, std::vector<Kernel>& before) {
  const int storage = kernel.placed[found.placed].statement.store.storage;
  for (size_t k = found.placed + 1; k < kernel.placed.size(); ++k) {
    Placed& p = kernel.placed[k];
    if (!p.product || p.adds || p.outside) continue;
    const ir::ProductAxes axes = *product_axes(p.statement);
    const Access &left = p.statement.loads[axes.left], right = p.statement.loads[axes.right];
    const size_t along = axes.in_pair.value_or(axes.terms);
    const int64_t terms =
        p.statement.axes[axes.terms] * (axes.in_pair ? p.statement.axes[*axes.in_pair] : 1);
    const bool changed = std::any_of(kernel.placed.begin(), kernel.placed.end(), [&](auto& other) {
      return other.statement.store.storage == right.storage;
    });
    if (left.storage != storage || left.strides[along] != 1 || terms != columns || changed ||
        left.offset != kernel.placed[found.placed].statement.store.offset ||
        !right.indirect.empty() || is_scratch(kernel, right.storage) ||
        !is_scratch(kernel, storage))
      continue;
    Access finite;
    before.push_back(largest_of(kernel, p, right, finite, storages));
    auto& loads = p.statement.loads;
    const auto count = static_cast<int>(loads.size());
    for (const int bound : {first, last})
      loads.push_back({bound, ScalarType::Long, 0, std::vector<int64_t>(p.axis_var.size(), 0), {}});
    loads.push_back(std::move(finite));
    p.outside = Placed::Outside{count, count + 1, count + 2};
  }
}

}  // namespace

void find_quiet(Kernel& kernel, const Reader& reader, size_t needed,
                std::vector<ir::Storage>& storages, std::vector<Kernel>& before) {
  if (reader.conditions.size() != 1) return;
  Quieting quieting(kernel, reader);
  if (!quieting.is_in_order()) return;
  auto found = quieting.find();
  // One pair of bounds each: those of another mask before this one stay.
  std::erase_if(found, [&](const Found& f) { return kernel.placed[f.placed].quiet.has_value(); });
  if (found.empty()) return;
  Access bytes = kernel.placed[needed].statement.store;
  if (bytes.offset != 0) return;
  bytes.strides = {1};
  std::vector<ir::TreeNode> nests;
  const int64_t columns = quieting.columns();
  const int first = add_bound(kernel, storages, bytes, columns, true, nests),
            last = add_bound(kernel, storages, bytes, columns, false, nests);
  const Position needed_at = position_of(kernel, reader.block, needed);
  needed_at.body.insert(needed_at.body.begin() + needed_at.at + 1,
                        std::make_move_iterator(nests.begin()),
                        std::make_move_iterator(nests.end()));
  for (Found& f : found) {
    Statement& s = kernel.placed[f.placed].statement;
    const auto bound = [&](int storage) {
      return add_load(s,
                      {storage, ScalarType::Long, 0, std::vector<int64_t>(s.axes.size(), 0), {}});
    };
    f.quiet.first = bound(first);
    f.quiet.last = bound(last);
    for (Access& load : f.inherited) f.quiet.finite.push_back(add_load(s, std::move(load)));
  }
  for (size_t k = 0; k < found.size(); ++k) {
    const Found& f = found[k];
    Placed::Quiet quiet = f.quiet;
    quiet.deferred = is_read_by_quiet(kernel, reader, found, k);
    const bool is_zero = !kernel.placed[f.placed].statement.reduction && quiet.value == 0;
    kernel.placed[f.placed].quiet = std::move(quiet);
    if (is_zero) find_outside(kernel, f, first, last, columns, storages, before);
  }
}

}  // namespace graft::passes
