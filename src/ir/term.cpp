#include "ir/term.h"

#include <cctype>

#include "ir/text.h"

namespace graft::ir {

namespace {

constexpr int kDeepest = 2000;  // parentheses: what a thread's stack holds

constexpr Op kEveryOp[] = {
#define NODE(name, ...) Op::name,
#include "ir/nodes.def"
};
constexpr Routine kEveryRoutine[] = {
#define ROUTINE(form, function, ...) Routine::form##function,
#include "ir/routines.def"
};

}  // namespace

Term TermReader::term() {
  if (++depth_ > kDeepest) cursor_.fail_at(cursor_.place(), "parentheses are nested too deeply");
  Term made = primary();
  --depth_;
  return made;
}

/// %storage[place], with what `in` needs for its indices.
Term TermReader::access() {
  cursor_.expect("%");
  Term made{.kind = Term::Kind::Load, .place = cursor_.place()};
  made.access.storage = cursor_.index("a storage's number");
  if (cursor_.eat(".")) made.type = cursor_.type();
  made.access.strides.assign(axes_, 0);
  cursor_.expect("[");
  for (bool first = true; first || !cursor_.sees("]"); first = false) {
    bool minus = cursor_.eat("-");
    if (!minus && !first) cursor_.expect("+");
    addend(made, minus ? -1 : 1);
  }
  cursor_.expect("]");
  return made;
}

size_t TermReader::axis() {
  size_t place = cursor_.place();
  std::string_view name = cursor_.word("an axis");
  auto axis = axis_named(name);
  if (!axis || *axis >= axes_)
    cursor_.fail_at(place, "the statement has no axis \"" + std::string(name) + "\"");
  return *axis;
}

/// axis*stride, (index)*stride, (index:extent)*stride or an offset.
void TermReader::addend(Term& load, int64_t sign) {
  if (cursor_.sees_digit()) {
    load.access.offset += sign * cursor_.integer();
    return;
  }
  if (cursor_.eat("(")) {
    load.in.push_back(term());
    int64_t extent = cursor_.eat(":") ? cursor_.integer() : 0;
    cursor_.expect(")");
    auto index = static_cast<NodeId>(load.in.size() - 1);
    load.access.indirect.push_back({index, sign * stride(), extent});
    return;
  }
  size_t a = axis();
  load.access.strides[a] += sign * stride();
}

int64_t TermReader::stride() {
  return cursor_.eat("*") ? cursor_.integer() : 1;
}

Term TermReader::primary() {
  if (cursor_.sees("%")) return access();
  if (cursor_.eat("$")) return number(Term::Kind::Scalar);
  if (cursor_.eat("(")) return infix();
  if (size_t place = cursor_.place(); cursor_.eat(info(Op::Not).text))
    return call({.kind = Term::Kind::Node, .place = place}, Op::Not, 1);
  for (const char* start : {"-", "inf", "nan", "true", "false"})
    if (cursor_.sees(start)) return number(Term::Kind::Number);
  if (cursor_.sees_digit()) return number(Term::Kind::Number);
  return named();
}

Term TermReader::number(Term::Kind kind) {
  size_t place = cursor_.place();
  Term made{.kind = kind, .place = place, .text = cursor_.number()};
  if (made.text == "true" || made.text == "false") made.type = ScalarType::Bool;
  if (cursor_.eat(":")) made.type = cursor_.type();
  return made;
}

Term TermReader::infix() {
  Term made{.kind = Term::Kind::Node, .place = cursor_.place()};
  made.in.push_back(term());
  made.op = infix_operator();
  made.in.push_back(term());
  cursor_.expect(")");
  return made;
}

Op TermReader::infix_operator() {
  const Op* found = nullptr;  // the longest: "<<" before "<"
  for (const Op& op : kEveryOp) {
    std::string_view text = info(op).text;
    bool word = std::isalpha(static_cast<unsigned char>(text[0])) != 0;
    if (info(op).arity == 2 && !word && cursor_.sees(text) &&
        (found == nullptr || text.size() > info(*found).text.size()))
      found = &op;
  }
  if (found == nullptr) cursor_.fail_expected("an operator, such as +");
  cursor_.expect(info(*found).text);
  return *found;
}

Term TermReader::named() {
  Term made{.kind = Term::Kind::Name, .place = cursor_.place()};
  made.text = cursor_.word("a value");
  if (made.text == "bits") {
    cursor_.expect(".");
    made.type = cursor_.type();
    return call(std::move(made), Op::Bitcast, 1);
  }
  if (cursor_.sees("(")) return function(std::move(made));
  if (made.text == "reduced") {
    made.kind = Term::Kind::Reduced;
  } else if (axis_named(made.text)) {
    cursor_.back_to(made.place);
    made.kind = Term::Kind::Axis;
    made.payload = static_cast<int64_t>(axis());
  }
  return made;
}

Term TermReader::function(Term made) {
  if (auto type = type_named(made.text)) {
    made.type = type;
    return call(std::move(made), Op::Cast, 1);
  }
  for (Op op : kEveryOp)
    if (info(op).arity > 0 && info(op).text == made.text)
      return call(std::move(made), op, info(op).arity);
  for (Routine routine : kEveryRoutine)
    if (info(routine).name == made.text) {
      made.payload = static_cast<int64_t>(routine);
      return call(std::move(made), Op::Call, info(routine).arity);
    }
  cursor_.fail_at(made.place,
                  "no operator, dtype or routine is called \"" + std::string(made.text) + "\"");
}

Term TermReader::call(Term made, Op op, int arity) {
  made.kind = Term::Kind::Node;
  made.op = op;
  cursor_.expect("(");
  for (int k = 0; k < arity; ++k) {
    if (k > 0) cursor_.expect(",");
    made.in.push_back(term());
  }
  cursor_.expect(")");
  return made;
}

}  // namespace graft::ir
