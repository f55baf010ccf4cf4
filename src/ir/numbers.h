// A program as structure and numbers: what changes with the sizes of arguments, and what does not.
//
// One walk visits every field, in a fixed order. Programs of one structure (equal Structure, equal
// count of numbers) differ in their numbers alone.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ir/program.h"

namespace graft::ir {

enum class NumberKind : uint8_t {
  Exact,  ///< an extent, stride, offset, index, argument of an operator
  Real,   ///< the bits of a double
  Room,   ///< where a region of memory begins: right as well where regions are larger
  Free,   ///< right whatever it is
};

class NumberVisitor {
 public:
  virtual void number(int64_t& value, NumberKind kind) = 0;
  virtual void structure(int64_t value) = 0;
  /// Rooms from here on hold what the numbers from here on say. `largest`: they hold the largest
  /// blocks, whatever these say.
  virtual void part(bool /*largest*/) {}

  void exact(int64_t& value) { number(value, NumberKind::Exact); }
  void exact(std::vector<int64_t>& values) {
    structure(static_cast<int64_t>(values.size()));
    for (int64_t& value : values) exact(value);
  }
  void structure(std::string_view text);
  template <class T>
  void structures(const std::vector<T>& values) {
    structure(static_cast<int64_t>(values.size()));
    for (const T& value : values) structure(static_cast<int64_t>(value));
  }

 protected:
  ~NumberVisitor() = default;
};

void visit(View& view, NumberVisitor& visitor);
void visit(const std::optional<CallersTensor>& tensor, NumberVisitor& visitor);
void visit(const Lineage& lineage, NumberVisitor& visitor);
/// An IValue that has no text form is told by its address.
void visit(Constant& constant, NumberVisitor& visitor);
void visit(Program& program, NumberVisitor& visitor);

/// Numbers in the walk's order, and the rest as words.
struct Numbers final : NumberVisitor {
  std::vector<int64_t> values;
  std::vector<NumberKind> kinds;
  std::vector<int64_t> words;  ///< the structure
  struct Part {
    size_t first;  ///< into values
    bool largest;
  };
  std::vector<Part> parts;

  void number(int64_t& value, NumberKind kind) override {
    values.push_back(value);
    kinds.push_back(kind);
  }
  void structure(int64_t value) override { words.push_back(value); }
  void part(bool largest) override { parts.push_back({values.size(), largest}); }
  using NumberVisitor::structure;
  bool same_structure(const Numbers& other) const {
    return words == other.words && kinds == other.kinds;
  }
};
/// The walk only reads where its visitor does.
template <class T>
Numbers numbers_of(const T& walked) {
  Numbers found;
  visit(const_cast<T&>(walked), found);
  return found;
}

/// Puts numbers in their places, in the walk's order.
class Replace final : public NumberVisitor {
 public:
  explicit Replace(const std::vector<int64_t>& values) : next_(values.data()) {}
  void number(int64_t& value, NumberKind) override { value = *next_++; }
  void structure(int64_t) override {}

 private:
  const int64_t* next_;
};

}  // namespace graft::ir
