#include "passes/needed_columns.h"

#include <algorithm>

#include "passes/kernel_loops.h"
#include "passes/products.h"
#include "passes/rewrite.h"

namespace graft::passes {

using ir::Access;
using ir::Expr;
using ir::Kernel;
using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::Placed;
using ir::Statement;

namespace {

/// Bytes behind the last column's: columns are asked for many at once.
constexpr int64_t kBehind = 64;

/// By node: is it among what the roots are made of, if operand `k` of node `without` is not asked?
std::vector<bool> reached(const Statement& s, NodeId without, size_t k) {
  std::vector<bool> in(s.expr.nodes.size(), false);
  auto mark = [&](NodeId id) {
    if (id >= 0) in[static_cast<size_t>(id)] = true;
  };
  mark(s.value);
  if (s.reduction) mark(s.reduction->input);
  auto indices = [&](const Access& x) {
    for (const ir::Indirect& i : x.indirect) mark(i.index);
  };
  indices(s.store);
  for (const Access& load : s.loads) indices(load);
  for (size_t id = in.size(); id-- > 0;)
    if (in[id])
      for (size_t o = 0; o < 3; ++o)
        if (static_cast<NodeId>(id) != without || o != k) mark(s.expr.nodes[id].in[o]);
  return in;
}

/// Does the node's value come from memory that the kernel stores to, or from a reduction?
bool is_computed_here(const Kernel& kernel, const Statement& s, NodeId id) {
  const Node& node = s.expr.nodes[static_cast<size_t>(id)];
  if (node.op == Op::Reduced || node.op == Op::Call) return true;
  if (node.op == Op::Load) {
    const Access& load = s.loads[static_cast<size_t>(node.payload)];
    return !load.indirect.empty() ||
           std::any_of(kernel.placed.begin(), kernel.placed.end(),
                       [&](const Placed& p) { return p.statement.store.storage == load.storage; });
  }
  return std::any_of(node.in.begin(), node.in.end(),
                     [&](NodeId in) { return in >= 0 && is_computed_here(kernel, s, in); });
}

std::vector<Reader::Condition> conditions_of(const Kernel& kernel, const Statement& s,
                                             size_t load) {
  std::vector<Reader::Condition> found;
  const auto& nodes = s.expr.nodes;
  for (size_t id = 0; id < nodes.size(); ++id) {
    if (nodes[id].op != Op::Select || is_computed_here(kernel, s, nodes[id].in[0])) continue;
    for (size_t branch : {size_t{1}, size_t{2}}) {
      const std::vector<bool> others = reached(s, static_cast<NodeId>(id), branch);
      bool guarded = true;
      for (size_t n = 0; n < nodes.size(); ++n)
        guarded = guarded && !(others[n] && nodes[n].op == Op::Load &&
                               s.loads[static_cast<size_t>(nodes[n].payload)].storage ==
                                   s.loads[load].storage);
      if (!guarded) continue;
      Reader::Condition condition{nodes[id].in[0], branch == 1};
      auto node = [&]() -> const Node& { return nodes[static_cast<size_t>(condition.node)]; };
      while (node().op == Op::Not) condition = {node().in[0], !condition.holds};
      found.push_back(condition);
    }
  }
  return found;
}

/// Do the statement's columns and the product's lie side by side in the result, each once?
bool covers(const Kernel& kernel, const Placed& p, const Access& load, const Reader& reader) {
  std::vector<std::pair<int64_t, int64_t>> axes;  ///< stride, extent
  for (size_t a = 0; a < p.axis_var.size(); ++a)
    if (a != reader.row && !is_outer(kernel, reader, p.axis_var[a]) && p.statement.axes[a] > 1)
      axes.emplace_back(load.strides[a], p.statement.axes[a]);
  std::sort(axes.begin(), axes.end());
  int64_t dense = 1;
  for (const auto& [stride, extent] : axes) {
    if (stride != dense) return false;
    dense *= extent;
  }
  return true;
}

std::optional<Reader> reader_of(const Kernel& kernel, size_t product, const std::vector<int>& rows,
                                int block) {
  const int storage = kernel.placed[product].statement.store.storage;
  std::optional<Reader> reader;
  for (size_t k = 0; k < kernel.placed.size(); ++k) {
    const Statement& s = kernel.placed[k].statement;
    if (k != product && s.store.storage == storage) return {};
    for (size_t l = 0; l < s.loads.size(); ++l) {
      if (s.loads[l].storage != storage) continue;
      if (reader && (reader->placed != k || s.loads[reader->load] != s.loads[l])) return {};
      reader = Reader{.product = product, .placed = k, .load = l, .block = block};
    }
  }
  if (!reader) return {};
  const Placed& p = kernel.placed[reader->placed];
  const Access& load = p.statement.loads[reader->load];
  for (int v : rows)
    if (const int a = axis_of(p, v); a >= 0) reader->row = static_cast<size_t>(a);
  if (p.statement.repeated() || !load.indirect.empty() || p.product ||
      !covers(kernel, p, load, *reader))
    return {};
  reader->conditions = conditions_of(kernel, p.statement, reader->load);
  if (reader->conditions.empty()) return {};
  return reader;
}

/// Is one of a column's elements in the block used?
Statement any_used(const Statement& from, const Reader& reader, Access store) {
  Statement s = from;
  NodeId used = -1;
  for (const Reader::Condition& c : reader.conditions) {
    const NodeId met = c.holds ? c.node : s.expr.node(Op::Not, ScalarType::Bool, c.node);
    used = used < 0 ? met : s.expr.node(Op::And, ScalarType::Bool, used, met);
  }
  std::vector<bool> reduced(s.axes.size(), false);
  reduced[reader.row] = true;
  s.reduction = ir::Reduction{ir::ReduceOp::Or, ScalarType::Bool, used, reduced};
  s.value = s.expr.node(Op::Reduced, ScalarType::Bool);
  s.store = std::move(store);
  compact(s);
  return s;
}

}  // namespace

bool is_outer(const Kernel& kernel, const Reader& reader, int var) {
  return is_range(kernel, var) || var == reader.block;
}

std::vector<Reader> masked_readers(const Kernel& kernel, const std::vector<bool>& local,
                                   const std::vector<int>& rows, int block) {
  std::vector<Reader> readers;
  for (size_t k = 0; k < kernel.placed.size(); ++k) {
    const Statement& s = kernel.placed[k].statement;
    if (!kernel.placed[k].product || !local[static_cast<size_t>(s.store.storage)]) continue;
    if (std::optional<Reader> reader = reader_of(kernel, k, rows, block))
      readers.push_back(*reader);
  }
  return readers;
}

void compute_needed(Kernel& kernel, const Reader& reader, std::vector<ir::Storage>& storages) {
  const auto storage = static_cast<int>(storages.size());
  const Placed& from = kernel.placed[reader.placed];
  const size_t row = reader.row;
  Access store = from.statement.loads[reader.load];
  store.storage = storage, store.dtype = ScalarType::Bool;
  store.strides[row] = 0;

  Placed made{any_used(from.statement, reader, store), from.axis_var};
  int64_t columns = 1;
  std::vector<int> loops;  ///< outermost first
  for (size_t a = 0; a < made.axis_var.size(); ++a) {
    int& var = made.axis_var[a];
    if (is_outer(kernel, reader, var)) continue;
    var = static_cast<int>(kernel.vars.size());
    kernel.vars.push_back({made.statement.axes[a], ir::LoopKind::Serial});
    if (a != row) loops.push_back(var), columns *= made.statement.axes[a];
  }
  loops.push_back(made.axis_var[row]);

  Placed& product = kernel.placed[reader.product];
  Access load = product.statement.store;
  load.storage = storage, load.dtype = ScalarType::Bool;
  const ProductAxes axes = *product_axes(product.statement);
  for (size_t a : axes.rows) load.strides[a] = 0;
  product.needed = static_cast<int>(product.statement.loads.size());
  product.statement.loads.push_back(std::move(load));

  const int64_t bytes = columns + kBehind;
  storages.push_back({ir::Role::Temporary, bytes});
  add_scratch(kernel, storage, bytes);

  const Position product_at = position_of(kernel, reader.block, reader.product);
  product_at.body.insert(product_at.body.begin() + product_at.at,
                         nested(loops, {nullptr, static_cast<int>(kernel.placed.size())}));
  kernel.placed.push_back(std::move(made));
}

}  // namespace graft::passes
