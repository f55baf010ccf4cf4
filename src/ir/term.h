// A statement's expressions as they are written.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ir/cursor.h"
#include "ir/program.h"

namespace graft::ir {

/// A node as it is written; types come later, when all of the statement is read.
struct Term {
  enum class Kind : uint8_t { Number, Scalar, Load, Axis, Reduced, Name, Node } kind;
  size_t place;
  std::string_view text = {};           ///< a number's digits, a let's name
  std::optional<ScalarType> type = {};  ///< as written
  int64_t payload = 0;                  ///< an axis; a routine
  Op op = Op::Load;                     ///< Kind::Node
  std::vector<Term> in = {};            ///< operands; a Load's indices
  Access access = {};                   ///< Kind::Load; indirect[k].index is k of `in`
};

/// Reads terms of a statement with so many axes. Throws ParseError.
class TermReader {
 public:
  TermReader(Cursor& cursor, size_t axes) : cursor_(cursor), axes_(axes) {}

  Term term();
  /// %storage[place] or %storage.type[place]: a Load.
  Term access();
  /// An axis's name.
  size_t axis();

 private:
  void addend(Term& load, int64_t sign);
  int64_t stride();
  Term primary();
  Term number(Term::Kind kind);
  Term infix();
  Op infix_operator();
  Term named();
  Term function(Term made);
  Term call(Term made, Op op, int arity);

  Cursor& cursor_;
  const size_t axes_;
  int depth_ = 0;
};

}  // namespace graft::ir
