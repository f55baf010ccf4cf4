#include "ir/parse_statement.h"

#include <algorithm>
#include <map>

#include "ir/term.h"
#include "ir/text.h"

namespace graft::ir {

namespace {

/// A name for a term; those to its left may be used in it.
struct Let {
  std::string_view name;
  Term term;
};

/// Gives terms their types and makes nodes of them.
class Builder {
 public:
  Builder(const Cursor& cursor, Statement& statement) : cursor_(cursor), s_(statement) {}

  void define(const Let& let) { names_[let.name] = build(let.term, std::nullopt); }

  /// `expected`: what stands around tells the type.
  NodeId build(const Term& term, std::optional<ScalarType> expected) {
    std::optional<ScalarType> type = type_of(term);
    if (!type) type = expected;
    if (!type)
      cursor_.fail_at(term.place,
                      "nothing tells the type here; write it, as in 2:f32 or %0.f32[a]");
    if (expected && *type != *expected)
      cursor_.fail_at(term.place, std::string("expected ") + short_name(*expected) +
                                      ", but this is " + short_name(*type) + "; cast it");
    switch (term.kind) {
      case Term::Kind::Number:
        return s_.expr.add({Op::Const, *type, {-1, -1, -1}, payload(term, *type)});
      case Term::Kind::Scalar:
        return scalar(payload(term, *type), *type);
      case Term::Kind::Load:
        return load(term, *type);
      case Term::Kind::Axis:
        return s_.expr.add({Op::Axis, *type, {-1, -1, -1}, term.payload});
      case Term::Kind::Reduced:
        return s_.expr.add({Op::Reduced, *type, {-1, -1, -1}, 0});
      case Term::Kind::Name:
        return named(term);
      case Term::Kind::Node:
        break;
    }
    return node(term, *type);
  }

  /// What the reduction takes.
  NodeId term_of(const Term& term, const Reduction& reduction) {
    if (finds_place(reduction.op)) return build(term, std::nullopt);
    const bool narrow = widens(reduction, type_of(term).value_or(reduction.type));
    return build(term, narrow ? ScalarType::Float : reduction.type);
  }

  /// The access with its indices' nodes.
  Access access(const Term& term, ScalarType type) {
    Access made = term.access;
    made.dtype = type;
    for (Indirect& i : made.indirect)
      i.index = build(term.in[static_cast<size_t>(i.index)], ScalarType::Long);
    return made;
  }

 private:
  NodeId named(const Term& term) const {
    auto found = names_.find(term.text);
    if (found == names_.end())
      cursor_.fail_at(term.place, "nothing is called \"" + std::string(term.text) + "\"");
    return found->second;
  }

  /// What the term's own text tells.
  std::optional<ScalarType> type_of(const Term& term) {
    switch (term.kind) {
      case Term::Kind::Number:
      case Term::Kind::Scalar:
      case Term::Kind::Load:
        return term.type;
      case Term::Kind::Axis:
        return ScalarType::Long;
      case Term::Kind::Reduced:
        if (!s_.reduction) cursor_.fail_at(term.place, "the statement has no reduction");
        return s_.reduction->type;
      case Term::Kind::Name:
        return s_.expr.type(named(term));
      case Term::Kind::Node:
        break;
    }
    if (is_compared(term.op)) return ScalarType::Bool;
    if (term.op == Op::Cast || term.op == Op::Bitcast) return term.type;
    auto known = types_.find(&term);
    if (known == types_.end())
      known = types_.emplace(&term, type_of_operands(term, term.op == Op::Select ? 1 : 0)).first;
    return known->second;
  }

  std::optional<ScalarType> type_of_operands(const Term& term, size_t first) {
    for (size_t k = first; k < term.in.size(); ++k)
      if (auto type = type_of(term.in[k])) return type;
    return std::nullopt;
  }

  int64_t payload(const Term& term, ScalarType type) const {
    auto value = number_of(term.text, type);
    if (!value)
      cursor_.fail_at(term.place,
                      '"' + std::string(term.text) + "\" is no number of type " + short_name(type));
    return *value;
  }

  NodeId scalar(int64_t bits, ScalarType type) {
    for (size_t id = 0; id < s_.expr.nodes.size(); ++id) {
      const Node& node = s_.expr.nodes[id];
      if (node.op == Op::Scalar && node.type == type &&
          s_.scalars[static_cast<size_t>(node.payload)] == static_cast<uint64_t>(bits))
        return static_cast<NodeId>(id);
    }
    s_.scalars.push_back(static_cast<uint64_t>(bits));
    return s_.expr.add(
        {Op::Scalar, type, {-1, -1, -1}, static_cast<int64_t>(s_.scalars.size() - 1)});
  }

  NodeId load(const Term& term, ScalarType type) {
    Access made = access(term, type);
    auto found = std::find(s_.loads.begin(), s_.loads.end(), made);
    auto index = found - s_.loads.begin();
    if (found == s_.loads.end()) s_.loads.push_back(std::move(made));
    return s_.expr.add({Op::Load, type, {-1, -1, -1}, index});
  }

  NodeId node(const Term& term, ScalarType type) {
    std::optional<ScalarType> operands = type;
    size_t first = 0;
    std::array<NodeId, 3> in = {-1, -1, -1};
    if (term.op == Op::Select) in[first++] = build(term.in[0], ScalarType::Bool);
    if (term.op == Op::Cast || term.op == Op::Bitcast) operands = std::nullopt;
    if (is_compared(term.op)) operands = type_of_operands(term, 0);
    for (size_t k = first; k < term.in.size(); ++k) in[k] = build(term.in[k], operands);
    return s_.expr.add({term.op, type, in, term.payload});
  }

  const Cursor& cursor_;
  Statement& s_;
  std::map<std::string_view, NodeId> names_;
  std::map<const Term*, std::optional<ScalarType>> types_;
};

class StatementParser {
 public:
  StatementParser(Cursor& cursor, bool repeated) : cursor_(cursor), repeated_(repeated) {}

  Statement run() {
    axes();
    TermReader reader(cursor_, s_.axes.size());
    Term store = reader.access();
    ScalarType type = cursor_.type();
    cursor_.expect("=");
    Term value = reader.term();
    std::optional<Term> input;
    while (!cursor_.at_end_of_line()) {
      if (cursor_.eat("scan")) {
        input = reduction(reader, true);
      } else if (cursor_.eat("reduced")) {
        cursor_.expect("=");
        input = reduction(reader, false);
      } else if (cursor_.eat("after")) {
        cursor_.expect("%");
        s_.after = static_cast<int>(cursor_.integer("a storage"));
      } else if (cursor_.eat(";")) {
        let(reader);
      } else {
        cursor_.fail_expected(
            "\"reduced =\", \"scan\", \"after\", \"; name =\" or the end of the line");
      }
    }
    Builder builder(cursor_, s_);
    for (const Let& let : lets_) builder.define(let);
    if (input) s_.reduction->input = builder.term_of(*input, *s_.reduction);
    s_.value = builder.build(value, type);
    s_.store = builder.access(store, type);
    return std::move(s_);
  }

 private:
  void axes() {
    cursor_.expect("[");
    while (!cursor_.eat("]")) {
      if (!s_.axes.empty()) cursor_.expect(",");
      cursor_.expect(axis_name(s_.axes.size()));
      cursor_.expect(":");
      s_.axes.push_back(cursor_.integer("the axis's extent"));
      if (repeated_) s_.growth.push_back(growth());
    }
  }

  /// -2a: at each step, two less.
  int64_t growth() {
    int64_t sign = cursor_.eat("-") ? -1 : cursor_.eat("+") ? 1 : 0;
    if (sign == 0) return 0;
    int64_t by = cursor_.sees_digit() ? cursor_.integer() : 1;
    cursor_.expect("a");
    return sign * by;
  }

  Term reduction(TermReader& reader, bool scan) {
    if (s_.reduction) cursor_.fail_at(cursor_.place(), "a statement has one reduction");
    size_t place = cursor_.place();
    std::string_view name = cursor_.word("a reduction, such as sum");
    auto op = reduce_op_named(name);
    if (!op) cursor_.fail_at(place, "no reduction is called \"" + std::string(name) + "\"");
    cursor_.expect(".");
    Reduction made{*op, cursor_.type(), -1, std::vector<bool>(s_.axes.size(), false), scan};
    cursor_.expect("{");
    while (!cursor_.eat("}")) {
      if (std::find(made.axes.begin(), made.axes.end(), true) != made.axes.end())
        cursor_.expect(",");
      made.axes[reader.axis()] = true;
    }
    s_.reduction = std::move(made);
    return reader.term();
  }

  void let(TermReader& reader) {
    size_t place = cursor_.place();
    std::string_view name = cursor_.word("a name");
    bool known =
        std::any_of(lets_.begin(), lets_.end(), [&](const Let& l) { return l.name == name; });
    if (axis_named(name) || known)
      cursor_.fail_at(place, '"' + std::string(name) + "\" is something else already");
    cursor_.expect("=");
    lets_.push_back({name, reader.term()});
  }

  Cursor& cursor_;
  const bool repeated_;
  Statement s_;
  std::vector<Let> lets_;
};

}  // namespace

Statement parse_statement(Cursor& cursor, bool repeated) {
  return StatementParser(cursor, repeated).run();
}

}  // namespace graft::ir
