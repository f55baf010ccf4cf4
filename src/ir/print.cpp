#include <algorithm>
#include <bit>
#include <set>

#include "ir/kernel.h"
#include "ir/program.h"
#include "ir/text.h"

namespace graft::ir {

namespace {

std::string storage_name(int storage) {
  return "%" + std::to_string(storage);
}

template <class Items, class Text>
std::string joined(const Items& items, Text text) {
  std::string all;
  for (const auto& item : items) all += (all.empty() ? "" : ", ") + text(item);
  return all;
}

std::string numbers(const std::vector<int64_t>& values) {
  std::string text;
  for (int64_t value : values) text += (text.empty() ? "" : ",") + std::to_string(value);
  return text;
}

std::string view_text(const View& v) {
  if (v.storage < 0) return "undefined";
  std::string text = storage_name(v.storage) + " " + short_name(v.dtype) + "[" + numbers(v.sizes) +
                     "]:(" + numbers(v.strides) + ")";
  return v.byte_offset ? text + "@" + std::to_string(v.byte_offset) : text;
}

/// One overload for each alternative of a constant.
struct ConstantText {
  std::string operator()(std::monostate) const { return "None"; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const {
    std::string text = number_text(std::bit_cast<int64_t>(value), ScalarType::Double);
    return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
  }
  std::string operator()(const std::string& value) const { return quoted(value); }
  std::string operator()(const Constant::List& items) const {
    return "[" +
           joined(items, [&](const Constant& item) { return std::visit(*this, item.value); }) + "]";
  }
  std::string operator()(const NumberTensor& number) const {
    return std::string(number.wrapped ? "number(" : "tensor(") +
           number_text(number.bits, is_float(number.dtype) ? ScalarType::Double : number.dtype) +
           std::string(":") + short_name(number.dtype) + ")";
  }
  std::string operator()(const Opaque& opaque) const { return "opaque " + quoted(opaque.what); }
};

/// Argument k of the call.
std::string slot_text(const Extern& e, const Extern::Slot& slot) {
  auto tensor = [&](int view, const char* otherwise) {
    return view < 0 ? otherwise : view_text(e.inputs.at(static_cast<size_t>(view)));
  };
  switch (slot.kind) {
    case OperandKind::Constant:
      return std::visit(ConstantText{}, slot.constant.value);
    case OperandKind::Tensor:
      return tensor(slot.views.at(0), "undefined");
    case OperandKind::TensorList:
      return "tensors[" + joined(slot.views, [&](int v) { return tensor(v, "undefined"); }) + "]";
    case OperandKind::OptionalTensorList:
      return "optionals[" + joined(slot.views, [&](int v) { return tensor(v, "undefined"); }) + "]";
    case OperandKind::Number:
      return std::string("value ") + tensor(slot.views.at(0), "undefined");
  }
  return {};
}

std::string extern_text(const Extern& e) {
  std::string text = joined(e.outputs, view_text);
  text +=
      (text.empty() ? "" : " = ") + e.op.name + (e.op.overload.empty() ? "" : ".") + e.op.overload;
  text += "(" + joined(e.slots, [&](const auto& slot) { return slot_text(e, slot); }) + ")";
  return e.written.empty() ? text : text + " writes " + joined(e.written, storage_name);
}

bool contains(const std::vector<int>& values, size_t value) {
  return std::find(values.begin(), values.end(), static_cast<int>(value)) != values.end();
}

std::string arguments_text(const Signature& signature) {
  std::string text;
  auto add = [&](const char* role, const std::vector<View>& views, const std::vector<int>& bumped) {
    for (size_t k = 0; k < views.size(); ++k)
      text += std::string(role) + " " + std::to_string(k) + " = " + view_text(views[k]) +
              (contains(bumped, k) ? "  bumped\n" : "\n");
  };
  add("argument", signature.arguments, signature.bumped);
  add("captured", signature.captured, signature.bumped_captured);
  return text;
}

std::string results_text(const std::vector<Result>& results) {
  std::string text;
  for (size_t k = 0; k < results.size(); ++k) {
    const Result& r = results[k];
    text += "result " + std::to_string(k) + " = ";
    if (!r.defined)
      text += "undefined";
    else if (r.argument >= 0)
      text += "argument " + std::to_string(r.argument);
    else if (r.captured >= 0)
      text += "captured " + std::to_string(r.captured);
    else if (r.same_as >= 0)
      text += "result " + std::to_string(r.same_as);
    else
      text += view_text(r.view) + print(r.lineage);
    if (r.gradient_of)
      text += std::string(", gradient of ") +
              (r.gradient_of->captured ? "captured " : "argument ") +
              std::to_string(r.gradient_of->index) + "\n";
    else
      text += r.returned ? "\n" : ", not returned\n";
  }
  return text;
}

std::string storage_text(const std::vector<Storage>& storages, size_t k) {
  const Storage& s = storages[k];
  std::string text = storage_name(static_cast<int>(k)) + ": " + name_of(s.role);
  if (s.source >= 0) text += " " + std::to_string(s.source);
  return text + ", " + std::to_string(s.bytes) + " bytes" +
         (s.made_by_extern ? ", made by extern" : "") + "\n";
}

/// Storages that something of the program speaks of.
class Mentioned {
 public:
  explicit Mentioned(const Program& program) {
    for (const auto* views : {&program.signature.arguments, &program.signature.captured})
      for (const View& view : *views) add(view.storage);
    for (const Result& result : program.signature.results) add(result.view.storage);
    for (const Item& item : program.items) std::visit(*this, item);
  }
  void operator()(const Statement& s) {
    std::vector<bool> seen(s.expr.nodes.size(), false);
    access(s, s.store, seen);
    node(s, s.value, seen);
    if (s.reduction) node(s, s.reduction->input, seen);
  }
  void operator()(const Repeat& repeat) {
    for (const Statement& s : repeat.body) (*this)(s);
  }
  void operator()(const Extern& e) {
    for (const auto* views : {&e.inputs, &e.outputs})
      for (const View& view : *views) add(view.storage);
    for (int storage : e.written) add(storage);
  }
  void operator()(const Abort& abort) { add(abort.flag); }

  const std::set<int>& storages() const { return storages_; }

 private:
  /// Loads that no node uses are not in the text.
  void node(const Statement& s, NodeId id, std::vector<bool>& seen) {
    auto at = static_cast<size_t>(id);
    if (at >= seen.size() || seen[at]) return;
    seen[at] = true;
    const Node& n = s.expr.nodes[at];
    for (NodeId in : n.in) node(s, in, seen);
    if (auto load = static_cast<size_t>(n.payload); n.op == Op::Load && load < s.loads.size())
      access(s, s.loads[load], seen);
  }
  void access(const Statement& s, const Access& access, std::vector<bool>& seen) {
    add(access.storage);
    for (const Indirect& i : access.indirect)
      if (i.stride != 0) node(s, i.index, seen);
  }
  void add(int storage) {
    if (storage >= 0) storages_.insert(storage);
  }
  std::set<int> storages_;
};

struct ItemText {
  std::string operator()(const Statement& s) const { return print(s) + "\n"; }
  std::string operator()(const Extern& e) const { return extern_text(e) + "\n"; }
  std::string operator()(const Abort& a) const { return "abort if " + storage_name(a.flag) + "\n"; }
  std::string operator()(const Repeat& r) const {
    std::string text = "repeat " + std::to_string(r.count) + (r.origin ? "\n" : " in order\n");
    for (const Statement& s : r.body) text += "  " + print(s) + "\n";
    return text;
  }
  std::string operator()(const Kernel& kernel) const { return print(kernel, {}); }
};

std::string indent(size_t depth) {
  return std::string(2 * depth, ' ');
}

void print_tree(const Kernel& kernel, const std::vector<TreeNode>& body, size_t depth,
                std::string& text) {
  constexpr const char* kKinds[] = {"range", "serial", "vector", "step"};
  for (const TreeNode& node : body) {
    if (node.loop) {
      const Variable& var = kernel.vars[static_cast<size_t>(node.loop->var)];
      text += indent(depth) + kKinds[static_cast<size_t>(var.kind)] + " v" +
              std::to_string(node.loop->var) + ":" + std::to_string(var.extent) +
              growth_text(var.growth, "v" + std::to_string(var.step)) + "\n";
      print_tree(kernel, node.loop->body, depth + 1, text);
    } else {
      const Placed& placed = kernel.placed[static_cast<size_t>(node.placed)];
      text += indent(depth) + statement_text(placed.statement, &placed.axis_var) +
              (placed.streamed ? "  streamed" : "") + (placed.transposed ? "  transposed" : "") +
              (placed.product ? "  product" : "") + (placed.adds ? " adds" : "");
      if (placed.needed >= 0)
        text += " where %" +
                std::to_string(placed.statement.loads[static_cast<size_t>(placed.needed)].storage);
      if (placed.outside) {
        const auto loaded = [&](int load) {
          return " %" + std::to_string(placed.statement.loads[static_cast<size_t>(load)].storage);
        };
        text += " zero outside" + loaded(placed.outside->first) + " to" +
                loaded(placed.outside->last) + " by" + loaded(placed.outside->finite);
      }
      if (placed.quiet) {
        const auto& nodes = placed.statement.expr.nodes;
        const auto bound = [&](NodeId id) {
          const auto load = static_cast<size_t>(nodes[static_cast<size_t>(id)].payload);
          return "%" + std::to_string(placed.statement.loads[load].storage);
        };
        text += "  quiet outside " + bound(placed.quiet->first) + " to " +
                bound(placed.quiet->last) + (placed.quiet->deferred ? ", deferred" : "");
      }
      if (!placed.ahead.empty()) text += "  ahead";
      for (const Placed::Ahead& a : placed.ahead) {
        const Access& load = placed.statement.loads[static_cast<size_t>(a.load)];
        text += " %" + std::to_string(load.storage) + " by v" + std::to_string(a.var) + "+" +
                std::to_string(a.iterations);
      }
      text += "\n";
    }
  }
}

}  // namespace

std::string print(const Statement& statement) {
  return statement_text(statement);
}

std::string print(const Program& program) {
  std::string text = arguments_text(program.signature);
  const Mentioned mentioned(program);
  for (int storage : mentioned.storages())
    if (auto k = static_cast<size_t>(storage); k < program.storages.size())
      text += storage_text(program.storages, k);
  for (const Item& item : program.items) text += std::visit(ItemText{}, item);
  return text + results_text(program.signature.results);
}

std::string print(const Kernel& kernel, const std::vector<Storage>&) {
  std::string text = "kernel " + kernel.name;
  for (int v : kernel.range)
    text +=
        " v" + std::to_string(v) + ":" + std::to_string(kernel.vars[static_cast<size_t>(v)].extent);
  if (kernel.rows > 0) text += " rows " + std::to_string(kernel.rows);
  text += " grain " + std::to_string(kernel.grain) + "\n";
  for (const Scratch& s : kernel.scratch)
    text += "  scratch %" + std::to_string(s.storage) + ": " + std::to_string(s.bytes) +
            " bytes at " + std::to_string(s.offset) + (s.vectors ? ", by lane\n" : "\n");
  if (!kernel.own.empty()) text += "  own";
  for (int storage : kernel.own) text += " %" + std::to_string(storage);
  if (!kernel.own.empty()) text += "\n";
  print_tree(kernel, kernel.body, 1, text);
  return text;
}

std::string print(const Schedule& schedule) {
  std::string text;
  for (size_t k = 0; k < schedule.arena_offset.size(); ++k) {
    const int64_t offset = schedule.arena_offset[k];
    if (offset < 0 && offset != kOwnBlock) continue;
    const int before = schedule.predecessor(k);
    if (before >= 0) {
      text += "%" + std::to_string(k) + ": in place of %" + std::to_string(before) + "\n";
      continue;
    }
    text += "%" + std::to_string(k) +
            (offset < 0 ? ": a block" : ": arena at " + std::to_string(offset)) + ", " +
            std::to_string(schedule.storages[k].bytes) + " bytes" +
            (schedule.storages[k].folded ? ", folded\n" : "\n");
  }
  for (const Step& step : schedule.steps) text += std::visit(ItemText{}, step);
  return text + results_text(schedule.signature.results);
}

}  // namespace graft::ir
