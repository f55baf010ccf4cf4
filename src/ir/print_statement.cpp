// One statement as text.
#include <cctype>
#include <cstdlib>
#include <map>
#include <tuple>

#include "ir/facts.h"
#include "ir/text.h"

namespace graft::ir {

namespace {

/// The statement's nodes with equal ones merged, so that its text does not depend on how it was
/// built. Loads of one place, and scalars of one value, are equal.
class Merged {
 public:
  explicit Merged(const Statement& s) : s_(s), same_(s.expr.nodes.size()) {
    using Key = std::tuple<Op, ScalarType, std::array<NodeId, 3>, int64_t>;
    std::map<Key, NodeId> known;
    for (size_t id = 0; id < same_.size(); ++id) {
      Node node = s.expr.nodes[id];
      auto index = static_cast<size_t>(node.payload);
      for (NodeId& in : node.in) in = of(in);
      if (node.op == Op::Load && index < s.loads.size()) node.payload = load(index);
      if (node.op == Op::Scalar && index < s.scalars.size())
        node.payload = static_cast<int64_t>(s.scalars[index]);
      Key key{node.op, node.type, node.in, node.payload};
      same_[id] = known.try_emplace(key, static_cast<NodeId>(id)).first->second;
    }
  }

  /// -1 for what is no node: malformed statements are printed as well.
  NodeId of(NodeId id) const {
    return static_cast<size_t>(id) < same_.size() ? same_[static_cast<size_t>(id)] : -1;
  }

 private:
  /// The first load of the same place.
  int64_t load(size_t index) const {
    auto merged = [&](Access access) {
      std::erase_if(access.indirect, [](const Indirect& i) { return i.stride == 0; });
      for (Indirect& i : access.indirect) i.index = of(i.index);
      return access;
    };
    const Access wanted = merged(s_.loads[index]);
    for (size_t k = 0; k < index; ++k)
      if (merged(s_.loads[k]) == wanted) return static_cast<int64_t>(k);
    return static_cast<int64_t>(index);
  }

  const Statement& s_;
  std::vector<NodeId> same_;
};

/// Shared nodes that are not leaves become `let`s, so that the text stays linear in the DAG.
class Printer {
 public:
  Printer(const Statement& s, const std::vector<int>* vars)
      : s_(s),
        vars_(vars),
        merged_(s),
        uses_(s.expr.nodes.size(), 0),
        names_(s.expr.nodes.size()),
        typed_(s.expr.nodes.size(), -1) {
    use(s.value);
    if (s.reduction) use(s.reduction->input);
    use_indices(s.store);
  }

  std::string statement() {
    std::string reduction;
    if (s_.reduction) reduction = reduction_text(*s_.reduction);
    std::string value = expr(s_.value, true);
    std::string store = access(s_.store, true);
    return (vars_ ? "" : axes_text()) + store + " " + short_name(s_.store.dtype) + " = " + value +
           reduction + (s_.after < 0 ? "" : "  after %" + std::to_string(s_.after)) + lets_;
  }

 private:
  const Node& node(NodeId id) const { return s_.expr.nodes[static_cast<size_t>(id)]; }
  std::string axis(size_t a) const {
    return vars_ && a < vars_->size() ? "v" + std::to_string((*vars_)[a]) : axis_name(a);
  }

  std::string axes_text() const {
    std::string text = "[";
    for (size_t a = 0; a < s_.axes.size(); ++a)
      text += (a ? "," : "") + axis_name(a) + ":" + std::to_string(s_.axes[a]) +
              (s_.repeated() ? growth_text(s_.growth[a], "a") : "");
    return text + "] ";
  }

  std::string reduction_text(const Reduction& r) {
    std::string text = std::string(r.scan ? "  scan " : "  reduced = ") + name_of(r.op) + "." +
                       short_name(r.type) + "{";
    bool first = true;
    for (size_t a = 0; a < r.axes.size(); ++a)
      if (r.axes[a]) text += (first ? "" : ",") + axis(a), first = false;
    return text + "} " + expr(r.input, !finds_place(r.op) && node(r.input).type == r.type);
  }

  /// Counts the uses that the text will show.
  void use(NodeId id) {
    id = merged_.of(id);
    if (id < 0 || uses_[static_cast<size_t>(id)]++ > 0) return;
    const Node& n = node(id);
    for (int k = 0; k < arity(n); ++k) use(n.in[static_cast<size_t>(k)]);
    if (const Access* load = load_of(n)) use_indices(*load);
  }
  void use_indices(const Access& access) {
    for (const Indirect& i : access.indirect)
      if (i.stride != 0) use(i.index);
  }
  const Access* load_of(const Node& n) const {
    auto index = static_cast<size_t>(n.payload);
    return n.op == Op::Load && index < s_.loads.size() ? &s_.loads[index] : nullptr;
  }

  bool has_name(NodeId id) const {
    return arity(node(id)) > 0 && uses_[static_cast<size_t>(merged_.of(id))] > 1;
  }

  /// Does the node's text tell its type?
  bool is_typed(NodeId id) {
    id = merged_.of(id);
    if (id < 0) return true;
    signed char& known = typed_[static_cast<size_t>(id)];
    if (known < 0) known = has_name(id) || tells_type(node(id));
    return known != 0;
  }

  bool tells_type(const Node& n) {
    switch (types(n.op)) {
      case TypeClass::Load:
        return false;
      case TypeClass::Const:
      case TypeClass::Scalar:
        return n.type == ScalarType::Bool;
      case TypeClass::Axis:
      case TypeClass::Reduced:
      case TypeClass::Cast:
      case TypeClass::Bitcast:
      case TypeClass::Compare:
        return true;
      case TypeClass::Select:
        return is_typed(n.in[1]) || is_typed(n.in[2]);
      case TypeClass::Number:
      case TypeClass::Real:
      case TypeClass::Single:
      case TypeClass::Integer:
      case TypeClass::Logic:
      case TypeClass::Call:
        break;
    }
    bool any = false;
    for (int k = 0; k < arity(n); ++k) any = any || is_typed(n.in[static_cast<size_t>(k)]);
    return any;
  }

  /// `known`: what stands around tells the type.
  std::string expr(NodeId id, bool known) {
    id = merged_.of(id);
    if (id < 0) return "?";
    if (!has_name(id)) return body(node(id), known);
    std::string& name = names_[static_cast<size_t>(id)];
    if (name.empty()) {
      name = "?";  // if it were its own operand
      std::string text = body(node(id), false);
      name = "t" + std::to_string(++count_);
      lets_ += "; " + name + " = " + text;
    }
    return name;
  }

  /// Operands of one type: the first says it where nothing else does.
  std::vector<std::string> operands(const Node& n, int first, bool known) {
    for (int k = first; k < arity(n); ++k) known = known || is_typed(n.in[static_cast<size_t>(k)]);
    std::vector<std::string> texts;
    for (int k = first; k < arity(n); ++k) {
      texts.push_back(expr(n.in[static_cast<size_t>(k)], known));
      known = true;
    }
    return texts;
  }

  std::string access(const Access& a, bool known) {
    std::string place;
    auto term = [&](int64_t stride, const std::string& what) {
      if (stride < 0)
        place += "-";
      else if (!place.empty())
        place += "+";
      place += std::abs(stride) == 1 ? what : what + "*" + std::to_string(std::abs(stride));
    };
    for (size_t k = 0; k < a.strides.size(); ++k)
      if (a.strides[k] != 0) term(a.strides[k], axis(k));
    for (const Indirect& i : a.indirect)
      if (i.stride != 0)
        term(i.stride, "(" + expr(i.index, true) +
                           (i.extent > 0 ? ":" + std::to_string(i.extent) : "") + ")");
    if (a.offset != 0 || place.empty())
      place += (place.empty() || a.offset < 0 ? "" : "+") + std::to_string(a.offset);
    return "%" + std::to_string(a.storage) + (known ? "" : std::string(".") + short_name(a.dtype)) +
           "[" + place + "]";
  }

  static std::string call(std::string_view name, const std::vector<std::string>& operands) {
    std::string text = std::string(name) + "(";
    for (size_t k = 0; k < operands.size(); ++k) text += (k ? ", " : "") + operands[k];
    return text + ")";
  }

  std::string body(const Node& n, bool known) {
    std::string suffix =
        known || n.type == ScalarType::Bool ? "" : std::string(":") + short_name(n.type);
    switch (types(n.op)) {
      case TypeClass::Load:
        return load_of(n) ? access(*load_of(n), known) : "?";
      case TypeClass::Const:
        return number_text(n.payload, n.type) + suffix;
      case TypeClass::Scalar: {
        auto index = static_cast<size_t>(n.payload);
        uint64_t bits = index < s_.scalars.size() ? s_.scalars[index] : 0;
        return "$" + number_text(static_cast<int64_t>(bits), n.type) + suffix;
      }
      case TypeClass::Axis:
        return axis(static_cast<size_t>(n.payload));
      case TypeClass::Reduced:
        return "reduced";
      case TypeClass::Cast:
        return std::string(short_name(n.type)) + "(" + expr(n.in[0], false) + ")";
      case TypeClass::Bitcast:
        return std::string("bits.") + short_name(n.type) + "(" + expr(n.in[0], false) + ")";
      case TypeClass::Call:
        return call(info(static_cast<Routine>(n.payload)).name, operands(n, 0, known));
      case TypeClass::Select: {
        std::vector<std::string> all = {expr(n.in[0], true)};
        for (std::string& branch : operands(n, 1, known)) all.push_back(std::move(branch));
        return call(info(n.op).text, all);
      }
      case TypeClass::Number:
      case TypeClass::Real:
      case TypeClass::Single:
      case TypeClass::Integer:
      case TypeClass::Logic:
      case TypeClass::Compare:
        break;
    }
    const OpInfo& op = info(n.op);
    auto in = operands(n, 0, known && !is_compared(n.op));
    bool infix = op.arity == 2 && std::isalpha(static_cast<unsigned char>(op.text[0])) == 0;
    return infix ? "(" + in[0] + " " + std::string(op.text) + " " + in[1] + ")" : call(op.text, in);
  }

  const Statement& s_;
  const std::vector<int>* vars_;
  Merged merged_;
  std::vector<int> uses_;
  std::vector<std::string> names_;
  std::vector<signed char> typed_;  ///< per node: does its text tell its type; -1: not known yet
  std::string lets_;
  int count_ = 0;
};

}  // namespace

std::string statement_text(const Statement& statement, const std::vector<int>* vars) {
  return Printer(statement, vars).statement();
}

}  // namespace graft::ir
