#include <algorithm>

#include "ir/facts.h"
#include "ir/kernel.h"
#include "ir/overlap.h"
#include "ir/program.h"
#include "ir/visit.h"

namespace graft::ir {

namespace {

std::string check_types(const Statement& s, NodeId id) {
  const Node& node = s.expr.nodes[static_cast<size_t>(id)];
  auto type = [&](size_t k) { return s.expr.type(node.in[k]); };
  auto wrong = [&](const std::string& what) {
    return "node " + std::to_string(id) + " (" + std::string(info(node.op).name) + "): " + what;
  };
  int count = arity(node);
  for (int k = 0; k < 3; ++k) {
    NodeId in = node.in[static_cast<size_t>(k)];
    if (k < count ? in < 0 || in >= id : in != -1)
      return wrong("operand " + std::to_string(k) + " is not an earlier node");
  }
  bool integer = is_integer(node.type);
  bool real = node.type == ScalarType::Float || node.type == ScalarType::Double;
  auto alike = [&] {
    for (size_t k = 1; k < static_cast<size_t>(count); ++k)
      if (type(k) != type(0)) return wrong("operands differ in type");
    return std::string();
  };
  /// All operands have the node's own type, which is one of some types.
  auto own = [&](bool allowed, const char* wants) {
    if (std::string differ = alike(); !differ.empty()) return differ;
    if (type(0) != node.type) return wrong("operands are not of its type");
    return allowed ? "" : wrong(std::string("wants ") + wants);
  };
  switch (types(node.op)) {
    case TypeClass::Load:
      if (node.payload < 0 || node.payload >= static_cast<int64_t>(s.loads.size()))
        return wrong("no such load");
      if (s.loads[static_cast<size_t>(node.payload)].dtype != node.type)
        return wrong("type differs from its access");
      return "";
    case TypeClass::Scalar:
      return node.payload < 0 || node.payload >= static_cast<int64_t>(s.scalars.size())
                 ? wrong("no such scalar")
                 : "";
    case TypeClass::Axis:
      if (node.payload < 0 || node.payload >= static_cast<int64_t>(s.axes.size()))
        return wrong("no such axis");
      return node.type == ScalarType::Long ? "" : wrong("an axis is a Long");
    case TypeClass::Reduced:
      if (!s.reduction) return wrong("the statement has no reduction");
      return node.type == s.reduction->type ? "" : wrong("type differs from the reduction's");
    case TypeClass::Const:
    case TypeClass::Cast:
      return "";
    case TypeClass::Bitcast:
      return c10::elementSize(node.type) == c10::elementSize(type(0)) ? "" : wrong("widths differ");
    case TypeClass::Select:
      if (type(0) != ScalarType::Bool) return wrong("condition is not Bool");
      return type(1) == node.type && type(2) == node.type ? "" : wrong("branches differ in type");
    case TypeClass::Call:
      return real ? "" : wrong("a routine computes in Float or Double");
    case TypeClass::Compare:
      if (std::string differ = alike(); !differ.empty()) return differ;
      return node.type == ScalarType::Bool ? "" : wrong("a comparison is Bool");
    case TypeClass::Number:
      return own(real || integer, "Float, Double or integers");
    case TypeClass::Real:
      return own(real, "Float or Double");
    case TypeClass::Single:
      return own(node.type == ScalarType::Float, "Float");
    case TypeClass::Integer:
      return own(integer, "integers");
    case TypeClass::Logic:
      return own(integer || node.type == ScalarType::Bool, "Bool or integers");
  }
  return wrong("no such node");
}

std::string check_access(const Statement& s, const Access& a, const std::vector<Storage>& storages,
                         const char* what) {
  if (a.storage < 0 || a.storage >= static_cast<int>(storages.size()))
    return std::string(what) + ": no such storage";
  if (a.strides.size() != s.axes.size())
    return std::string(what) + ": " + std::to_string(a.strides.size()) + " strides for " +
           std::to_string(s.axes.size()) + " axes";
  for (const Indirect& i : a.indirect)
    if (i.index < 0 || i.index >= static_cast<NodeId>(s.expr.nodes.size()) ||
        s.expr.type(i.index) != ScalarType::Long)
      return std::string(what) + ": an index is not a Long node";
  Span reach = span(a, s);
  auto size = static_cast<int64_t>(c10::elementSize(a.dtype));
  const Storage& storage = storages[static_cast<size_t>(a.storage)];
  if (reach.first < 0 || (reach.last + 1) * size > storage.bytes)
    return std::string(what) + ": reaches bytes " + std::to_string(reach.first * size) + " to " +
           std::to_string((reach.last + 1) * size) + " of storage %" + std::to_string(a.storage) +
           ", which has " + std::to_string(storage.bytes);
  return "";
}

std::string check_statement(const Statement& s, const std::vector<Storage>& storages) {
  auto valid = [&](NodeId id) { return id >= 0 && id < static_cast<NodeId>(s.expr.nodes.size()); };
  if (s.repeated() && (s.growth.size() != s.axes.size() || s.growth[0] != 0))
    return "growth does not fit the axes";
  for (size_t a = 0; a < s.axes.size(); ++a) {
    int64_t last = s.repeated() ? s.axes[a] + s.growth[a] * (s.axes[0] - 1) : s.axes[a];
    if (std::min(s.axes[a], last) < 1)
      return "an axis has extent " + std::to_string(std::min(s.axes[a], last));
  }
  for (size_t id = 0; id < s.expr.nodes.size(); ++id)
    if (auto wrong = check_types(s, static_cast<NodeId>(id)); !wrong.empty()) return wrong;
  for (const Access& a : s.loads)
    if (auto wrong = check_access(s, a, storages, "load"); !wrong.empty()) return wrong;
  if (auto wrong = check_access(s, s.store, storages, "store"); !wrong.empty()) return wrong;
  if (s.after < -1 || s.after >= static_cast<int>(storages.size()))
    return "runs after an unknown storage";
  if (!valid(s.value)) return "no value";
  if (s.expr.type(s.value) != s.store.dtype) return "the value's type differs from the store's";
  std::vector<bool> along(s.axes.size());
  if (s.reduction) {
    if (s.reduction->axes.size() != s.axes.size())
      return "the reduction's axes do not match the statement's";
    if (!valid(s.reduction->input)) return "the reduction has no input";
    const ScalarType term = s.expr.type(s.reduction->input);
    if (!finds_place(s.reduction->op) && term != s.reduction->type && !widens(*s.reduction, term))
      return "the reduction's input has another type";
    along = s.reduction->axes;
    if (s.reduction->scan && std::count(along.begin(), along.end(), true) != 1)
      return "a scan runs along one axis";
  }
  for (size_t a = 0; a < s.axes.size(); ++a) {
    bool accumulated = along[a] && !s.reduction->scan;
    if (accumulated && s.store.strides[a] != 0)
      return "a reduction's store moves along a reduced axis";
    bool step = a == 0 && s.repeated();
    if (!accumulated && !step && s.axes[a] > 1 && s.store.strides[a] == 0 &&
        s.store.indirect.empty())
      return "two points store the same place (axis " + std::to_string(a) + ")";
  }
  return "";
}

std::string check_repeat(const Repeat& r, const std::vector<Storage>& storages) {
  if (r.count < 1 || r.body.empty()) return "an empty repeat";
  for (const Statement& s : r.body) {
    std::string wrong;
    if (!s.repeated() || s.axes[0] != r.count || (s.reduction && s.reduction->axes[0]))
      wrong = "axis 0 is not the step";
    else
      wrong = check_statement(s, storages);
    if (!wrong.empty()) return wrong + "\n  " + print(s);
  }
  return "";
}

/// Every placed statement occurs once, under loops for exactly its variables.
std::string check_tree(const Kernel& k, const std::vector<TreeNode>& body, std::vector<int>& open,
                       std::vector<int>& seen) {
  for (const TreeNode& node : body) {
    if (node.loop) {
      int var = node.loop->var;
      if (var < 0 || var >= static_cast<int>(k.vars.size())) return "no such variable";
      if (k.vars[static_cast<size_t>(var)].kind == LoopKind::Range)
        return "a Range variable has a loop in the body";
      if (std::count(open.begin(), open.end(), var)) return "variable nested in itself";
      open.push_back(var);
      if (auto wrong = check_tree(k, node.loop->body, open, seen); !wrong.empty()) return wrong;
      open.pop_back();
      continue;
    }
    if (node.placed < 0 || node.placed >= static_cast<int>(k.placed.size()))
      return "no such statement";
    ++seen[static_cast<size_t>(node.placed)];
    const Placed& p = k.placed[static_cast<size_t>(node.placed)];
    if (p.axis_var.size() != p.statement.axes.size()) return "axes and variables differ in number";
    for (size_t a = 0; a < p.axis_var.size(); ++a) {
      if (!std::count(open.begin(), open.end(), p.axis_var[a]))
        return "an axis's variable has no loop around the statement";
      const Variable& v = k.vars[static_cast<size_t>(p.axis_var[a])];
      int64_t growth = p.statement.repeated() ? p.statement.growth[a] : 0;
      if (v.extent != p.statement.axes[a] || v.growth != growth)
        return "an axis and its variable differ in extent";
      if (growth != 0 && v.step != p.axis_var[0]) return "an extent follows another loop";
    }
  }
  return "";
}

/// Looks at the first two steps and the last one.
std::string reads_of_own_stores(const Repeat& r) {
  for (const Statement& s : r.body)
    for (int64_t step : {int64_t{0}, std::min<int64_t>(1, r.count - 1), r.count - 1})
      if (surely_reads_own_stores(at_step(s, step)))
        return "a point reads what another stores at step " + std::to_string(step) + ": " +
               print(s);
  return "";
}

}  // namespace

std::string verify(const Statement& statement, const Program& program) {
  return check_statement(statement, program.storages);
}

std::string verify(const Program& program) {
  auto exists = [&](int storage) {
    return storage >= 0 && storage < static_cast<int>(program.storages.size());
  };
  for (size_t i = 0; i < program.items.size(); ++i) {
    std::string wrong = match(
        program.items[i],
        [&](const Statement& s) -> std::string {
          if (s.repeated()) return "a growing statement outside of a repeat";
          std::string of_it = check_statement(s, program.storages);
          if (of_it.empty() && surely_reads_own_stores(s))
            of_it = "a point reads what another stores";
          return of_it.empty() ? "" : of_it + "\n  " + print(s);
        },
        [&](const Abort& a) { return std::string(exists(a.flag) ? "" : "abort without a flag"); },
        [&](const Repeat& r) {
          std::string of_it = check_repeat(r, program.storages);
          return of_it.empty() ? reads_of_own_stores(r) : of_it;
        },
        [&](const Extern& e) -> std::string {
          for (const View& v : e.inputs)
            if (v.storage >= 0 && !exists(v.storage)) return "an extern's input has no storage";
          for (int storage : e.written)
            if (storage >= 0 && !exists(storage)) return "an extern writes no storage";
          return "";
        });
    if (!wrong.empty()) return "item " + std::to_string(i) + ": " + wrong;
  }
  for (const Result& r : program.signature.results)
    if (r.defined && r.argument < 0 && r.captured < 0 && r.same_as < 0 && !exists(r.view.storage))
      return "a result has no storage";
  for (const Result& r : program.signature.results) {
    if (!r.gradient_of) continue;
    const auto& owners =
        r.gradient_of->captured ? program.signature.captured : program.signature.arguments;
    if (r.gradient_of->index < 0 || static_cast<size_t>(r.gradient_of->index) >= owners.size())
      return "a gradient has no leaf";
  }
  return "";
}

std::string verify(const Kernel& kernel, const std::vector<Storage>& storages) {
  if (kernel.placed.empty()) return "kernel " + kernel.name + ": it has no statement";
  std::vector<int> open = kernel.range, seen(kernel.placed.size(), 0);
  for (int v : kernel.range)
    if (kernel.vars[static_cast<size_t>(v)].kind != LoopKind::Range)
      return "kernel " + kernel.name + ": a range variable is not a Range";
  if (kernel.rows > 0) {
    const bool one = kernel.placed.size() == 1 && kernel.range.empty() && kernel.body.size() == 1 &&
                     kernel.body[0].loop && !kernel.placed[0].statement.reduction &&
                     kernel.placed[0].statement.store.indirect.size() == 1;
    if (!one) return "kernel " + kernel.name + ": its range is no rows of one scattered store";
  }
  std::string wrong = check_tree(kernel, kernel.body, open, seen);
  if (wrong.empty() && std::any_of(seen.begin(), seen.end(), [](int n) { return n != 1; }))
    wrong = "a statement is not placed once";
  std::vector<int> tiles = kernel.range;
  if (kernel.range.empty() && kernel.body.size() == 1 && kernel.body[0].loop)
    tiles.push_back(kernel.body[0].loop->var);
  std::vector<Storage> local = storages;
  for (const Scratch& s : kernel.scratch) {
    int64_t& bytes = local[static_cast<size_t>(s.storage)].bytes;
    bytes = s.bytes;
    // Counted from each vector's first lane, though strides say from the loop's.
    if (s.vectors)
      for (const Variable& v : kernel.vars)
        if (v.kind == LoopKind::Vector) bytes += v.extent * 8;
  }
  for (const Placed& p : kernel.placed) {
    if (!wrong.empty()) break;
    bool scratch = std::any_of(kernel.scratch.begin(), kernel.scratch.end(), [&](const Scratch& s) {
      return s.storage == p.statement.store.storage;
    });
    wrong = check_statement(p.statement, local);
    // A temporary gets scratch of each tile's own later.
    bool visible = storages[static_cast<size_t>(p.statement.store.storage)].role != Role::Temporary;
    for (int v : tiles)
      if (!scratch && visible && kernel.vars[static_cast<size_t>(v)].extent > 1 && wrong.empty() &&
          std::count(p.axis_var.begin(), p.axis_var.end(), v) == 0)
        wrong = "every tile stores to the same memory";
    if ((scratch || p.adds) && wrong.starts_with("two points"))
      wrong.clear();  // a tile's memory is used again by the next tile
    if (!wrong.empty()) wrong += "\n  " + print(p.statement);
  }
  return wrong.empty() ? "" : "kernel " + kernel.name + ": " + wrong;
}

}  // namespace graft::ir
