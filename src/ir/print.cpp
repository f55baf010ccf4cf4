#include <sstream>

#include "ir/kernel.h"
#include "ir/program.h"

namespace graft::ir {

namespace {

const char* name_of(ReduceOp op) {
  constexpr const char* kNames[] = {"sum", "prod", "max", "min", "and", "or", "argmax", "argmin"};
  return kNames[static_cast<size_t>(op)];
}

/// Axis names: a, b, c …; variables of a kernel are v0, v1 ….
std::string axis_name(size_t axis) {
  return axis < 26 ? std::string(1, static_cast<char>('a' + axis)) : "a" + std::to_string(axis);
}

std::string number(double value) {
  std::ostringstream out;
  out.precision(9);
  out << value;
  return out.str();
}

/// "-2a" after an extent that shrinks by two per step.
std::string growth_text(int64_t growth, const std::string& step) {
  if (growth == 0) return "";
  std::string text = growth < 0 ? "-" : "+";
  return text + (std::abs(growth) == 1 ? "" : std::to_string(std::abs(growth))) + step;
}

/// Prints one statement; shared nodes that are not leaves become `let`s so that text stays linear
/// in the DAG.
class Printer {
 public:
  explicit Printer(const Statement& s, const std::vector<int>* vars = nullptr)
      : s_(s), vars_(vars), uses_(s.expr.nodes.size(), 0) {
    for (const Node& node : s.expr.nodes)
      for (int k = 0; k < arity(node); ++k)
        ++uses_[static_cast<size_t>(node.in[static_cast<size_t>(k)])];
    names_.resize(s.expr.nodes.size());
  }

  std::string statement() {
    std::string head;
    if (!vars_) {
      head = "[";
      for (size_t a = 0; a < s_.axes.size(); ++a)
        head += (a ? "," : "") + axis_name(a) + ":" + std::to_string(s_.axes[a]) +
                (s_.repeated() ? growth_text(s_.growth[a], "a") : "");
      head += "] ";
    }
    std::string reduction, guard;
    if (s_.reduction) {
      reduction = std::string(s_.reduction->scan ? "  scan " : "  reduced = ") +
                  name_of(s_.reduction->op) + "." + short_name(s_.reduction->type) + "{";
      bool first = true;
      for (size_t a = 0; a < s_.axes.size(); ++a)
        if (s_.reduction->axes[a]) reduction += (first ? "" : ",") + axis(a), first = false;
      reduction += "} " + expr(s_.reduction->input);
    }
    if (s_.guard >= 0) guard = "  if " + expr(s_.guard);
    std::string value = expr(s_.value);
    std::string store = access(s_.store);
    return head + store + " " + short_name(s_.store.dtype) + " = " + value + guard + reduction +
           lets_;
  }

  std::string expr(NodeId id) {
    const Node& node = s_.expr.nodes[static_cast<size_t>(id)];
    std::string text = body(node);
    if (arity(node) == 0 || uses_[static_cast<size_t>(id)] < 2) return text;
    std::string& name = names_[static_cast<size_t>(id)];
    if (name.empty()) {
      name = "t" + std::to_string(id);
      lets_ += "; " + name + " = " + text;
    }
    return name;
  }

 private:
  std::string axis(size_t a) const {
    return vars_ ? "v" + std::to_string((*vars_)[a]) : axis_name(a);
  }

  std::string access(const Access& a) {
    std::string place;
    auto term = [&](int64_t stride, const std::string& what) {
      if (stride == 0) return;
      if (stride < 0)
        place += "-";
      else if (!place.empty())
        place += "+";
      place += std::abs(stride) == 1 ? what : what + "*" + std::to_string(std::abs(stride));
    };
    for (size_t k = 0; k < a.strides.size(); ++k) term(a.strides[k], axis(k));
    for (const Indirect& i : a.indirect) term(i.stride, "(" + expr(i.index) + ")");
    if (a.offset != 0 || place.empty())
      place += (place.empty() || a.offset < 0 ? "" : "+") + std::to_string(a.offset);
    return "%" + std::to_string(a.storage) + "[" + place + "]";
  }

  std::string body(const Node& node) {
    auto in = [&](size_t k) { return expr(node.in[k]); };
    switch (node.op) {
      case Op::Load:
        return access(s_.loads[static_cast<size_t>(node.payload)]);
      case Op::Const:
        return number(constant_value(node));
      case Op::Scalar: {
        Node value = node;
        value.payload = static_cast<int64_t>(s_.scalars[static_cast<size_t>(node.payload)]);
        return "$" + number(constant_value(value));
      }
      case Op::Axis:
        return axis(static_cast<size_t>(node.payload));
      case Op::Reduced:
        return "reduced";
      case Op::Cast:
        return std::string(short_name(node.type)) + "(" + in(0) + ")";
      case Op::Bitcast:
        return std::string("bits.") + short_name(node.type) + "(" + in(0) + ")";
      case Op::Call: {
        const RoutineInfo& routine = info(static_cast<Routine>(node.payload));
        return std::string(routine.name) + "(" + in(0) + (routine.arity == 2 ? ", " + in(1) : "") +
               ")";
      }
      default:
        break;
    }
    const OpInfo& op = info(node.op);
    bool infix = op.arity == 2 && !std::isalpha(static_cast<unsigned char>(op.text[0]));
    if (infix) return "(" + in(0) + " " + std::string(op.text) + " " + in(1) + ")";
    std::string text = std::string(op.text) + "(";
    for (size_t k = 0; k < static_cast<size_t>(op.arity); ++k) text += (k ? ", " : "") + in(k);
    return text + ")";
  }

  const Statement& s_;
  const std::vector<int>* vars_;
  std::vector<int> uses_;
  std::vector<std::string> names_;
  std::string lets_;
};

std::string view_text(const View& v) {
  std::string text = "%" + std::to_string(v.storage) + " " + short_name(v.dtype) + "[";
  for (size_t d = 0; d < v.sizes.size(); ++d) text += (d ? "," : "") + std::to_string(v.sizes[d]);
  text += "]:(";
  for (size_t d = 0; d < v.strides.size(); ++d)
    text += (d ? "," : "") + std::to_string(v.strides[d]);
  text += ")";
  if (v.byte_offset) text += "@" + std::to_string(v.byte_offset);
  return text;
}

std::string extern_text(const Extern& e) {
  std::string text;
  for (size_t k = 0; k < e.outputs.size(); ++k) text += (k ? ", " : "") + view_text(e.outputs[k]);
  const auto& name = e.op.operator_name();
  text += (text.empty() ? "" : " = ") + name.name +
          (name.overload_name.empty() ? "" : "." + name.overload_name) + "(";
  for (size_t k = 0; k < e.inputs.size(); ++k) text += (k ? ", " : "") + view_text(e.inputs[k]);
  return text + ")";
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
      text += view_text(r.view);
    text += "\n";
  }
  return text;
}

std::string storage_text(const std::vector<Storage>& storages, size_t k) {
  constexpr const char* kRoles[] = {"argument", "captured", "output", "temporary"};
  const Storage& s = storages[k];
  std::string text = "%" + std::to_string(k) + ": " + kRoles[static_cast<size_t>(s.role)];
  if (s.source >= 0) text += " " + std::to_string(s.source);
  return text + ", " + std::to_string(s.bytes) + " bytes" +
         (s.made_by_extern ? ", made by extern" : "") + "\n";
}

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
      text += indent(depth) + Printer(placed.statement, &placed.axis_var).statement() +
              (placed.streamed ? "  streamed" : "") + (placed.transposed ? "  transposed" : "") +
              "\n";
    }
  }
}

}  // namespace

std::string print(const Statement& statement) {
  return Printer(statement).statement();
}
std::string print_expr(const Statement& statement, NodeId node) {
  return Printer(statement).expr(node);
}

std::string print(const Program& program) {
  std::string text;
  std::vector<bool> used(program.storages.size());
  auto uses = [&](const Statement& s) {
    used[static_cast<size_t>(s.store.storage)] = true;
    for (const Access& a : s.loads) used[static_cast<size_t>(a.storage)] = true;
  };
  for (const Item& item : program.items) {
    if (const auto* s = std::get_if<Statement>(&item)) {
      uses(*s);
    } else if (const auto* r = std::get_if<Repeat>(&item)) {
      for (const Statement& each : r->body) uses(each);
    } else if (const auto* e = std::get_if<Extern>(&item)) {
      for (const View& v : e->inputs)
        if (v.storage >= 0) used[static_cast<size_t>(v.storage)] = true;
      for (const View& v : e->outputs)
        if (v.storage >= 0) used[static_cast<size_t>(v.storage)] = true;
    }
  }
  for (size_t k = 0; k < program.storages.size(); ++k)
    if (used[k]) text += storage_text(program.storages, k);
  for (const Item& item : program.items) {
    if (const auto* s = std::get_if<Statement>(&item)) text += print(*s) + "\n";
    if (const auto* e = std::get_if<Extern>(&item)) text += extern_text(*e) + "\n";
    if (const auto* a = std::get_if<Abort>(&item))
      text += "abort if %" + std::to_string(a->flag) + "\n";
    if (const auto* r = std::get_if<Repeat>(&item)) {
      text += "repeat " + std::to_string(r->count) + "\n";
      for (const Statement& each : r->body) text += "  " + print(each) + "\n";
    }
  }
  return text + results_text(program.results);
}

std::string print(const Kernel& kernel, const std::vector<Storage>&) {
  std::string text = "kernel " + kernel.name;
  for (int v : kernel.range)
    text +=
        " v" + std::to_string(v) + ":" + std::to_string(kernel.vars[static_cast<size_t>(v)].extent);
  text += " grain " + std::to_string(kernel.grain) + "\n";
  for (const Scratch& s : kernel.scratch)
    text += "  scratch %" + std::to_string(s.storage) + ": " + std::to_string(s.bytes) +
            " bytes at " + std::to_string(s.offset) + (s.vectors ? ", by lane\n" : "\n");
  print_tree(kernel, kernel.body, 1, text);
  return text;
}

std::string print(const Schedule& schedule) {
  std::string text;
  for (size_t k = 0; k < schedule.storages.size(); ++k)
    if (!schedule.arena_offset.empty() && schedule.arena_offset[k] >= 0)
      text += "%" + std::to_string(k) + ": arena at " + std::to_string(schedule.arena_offset[k]) +
              ", " + std::to_string(schedule.storages[k].bytes) + " bytes\n";
  for (const Step& step : schedule.steps) {
    if (const auto* k = std::get_if<Kernel>(&step)) text += print(*k, schedule.storages);
    if (const auto* e = std::get_if<Extern>(&step)) text += extern_text(*e) + "\n";
    if (const auto* a = std::get_if<Abort>(&step))
      text += "abort if %" + std::to_string(a->flag) + "\n";
  }
  return text + results_text(schedule.results);
}

}  // namespace graft::ir
