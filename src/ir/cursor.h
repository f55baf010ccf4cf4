// A place in text that is being read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ir/expr.h"

namespace graft::ir {

/// Spaces before a token are skipped; a token never spans lines.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  bool at_end() const { return at_ == text_.size(); }
  /// Nothing but spaces to the end of the line?
  bool at_end_of_line();
  /// To the next line that has more than spaces; false at the end.
  bool next_line();
  /// Spaces before the line's first token.
  int indentation() const { return indentation_; }

  /// Takes the token, if it stands here. A token of letters matches whole words only.
  bool eat(std::string_view token);
  /// Would eat() find it?
  bool sees(std::string_view token);
  void expect(std::string_view token);
  bool sees_digit();
  /// Letters, digits and underscores, of which the first is no digit; empty if there is none.
  std::string_view word();
  /// The same, and what is expected where there is none.
  std::string_view word(const char* expected);
  int64_t integer(const char* expected = "a whole number");
  /// At least 0, and small enough to be an index.
  int index(const char* expected);
  /// Characters of numbers: digits, signs, exponents, inf, nan(0x…).
  std::string_view number();
  std::string quoted();
  ScalarType type();

  /// Of the next token.
  size_t place() {
    skip_spaces();
    return at_;
  }
  void back_to(size_t place) { at_ = place; }

  [[noreturn]] void fail_expected(const std::string& expected);
  [[noreturn]] void fail_at(size_t place, const std::string& what) const;

 private:
  void skip_spaces();

  std::string_view text_;
  size_t at_ = 0;
  int indentation_ = 0;
};

}  // namespace graft::ir
