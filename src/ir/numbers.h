// A program as structure and numbers: what changes with the sizes of arguments, and what does not.
//
// One walk visits every field, in a fixed order. Programs of one structure (equal words, equal
// count of numbers) differ in their numbers alone. A visitor may also fill what it is led through:
// what another one wrote down is read in that way.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ir/kernel.h"

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
  /// A number that lies in memory as something else: what it becomes is put back behind the visit.
  virtual void made(int64_t& value, NumberKind kind) { number(value, kind); }
  /// How far `value` lies above `base`.
  virtual void above(int64_t& value, int64_t base, NumberKind kind) {
    value -= base;
    number(value, kind);
    value += base;
  }
  /// A part of the structure.
  virtual void word(int64_t& value) = 0;
  /// How many there are of what follows, or which of several things it is.
  virtual void count(int64_t& value) { word(value); }
  virtual void text(std::string& text);
  /// What this process alone has: told by its address.
  virtual void opaque(Opaque& value);
  /// Rooms from here on hold what the numbers from here on say. `largest`: they hold the largest
  /// blocks, whatever these say.
  virtual void part(bool /*largest*/) {}

  void exact(int64_t& value) { number(value, NumberKind::Exact); }
  void exact(std::vector<int64_t>& values) {
    size(values);
    for (int64_t& value : values) exact(value);
  }
  /// The bits of a double.
  void real(double& value);

  /// A whole number, a bool or an enumeration; a visitor fills it where it is no constant.
  template <class T>
  void structure(T&& value) {
    auto as_word = static_cast<int64_t>(value);
    word(as_word);
    if constexpr (!std::is_const_v<std::remove_reference_t<T>>)
      value = static_cast<std::remove_reference_t<T>>(as_word);
  }
  template <class T>
  void structures(std::vector<T>& values) {
    size(values);
    for (auto&& value : values) {
      T one = value;
      structure(one);
      value = one;
    }
  }
  template <class T>
  void size(std::vector<T>& values) {
    auto many = static_cast<int64_t>(values.size());
    count(many);
    if (static_cast<size_t>(many) != values.size()) values.resize(static_cast<size_t>(many));
  }
  /// Is there a value?
  template <class T>
  bool there(std::optional<T>& value) {
    bool is = value.has_value();
    structure(is);
    if (is && !value) value.emplace();
    if (!is) value.reset();
    return is;
  }

 protected:
  ~NumberVisitor() = default;
};

void visit(View& view, NumberVisitor& visitor);
void visit(std::optional<CallersTensor>& tensor, NumberVisitor& visitor);
void visit(Lineage& lineage, NumberVisitor& visitor);
void visit(Program& program, NumberVisitor& visitor);
void visit(Schedule& schedule, NumberVisitor& visitor);

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
  void word(int64_t& value) override { words.push_back(value); }
  void part(bool largest) override { parts.push_back({values.size(), largest}); }
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
  void word(int64_t&) override {}

 private:
  const int64_t* next_;
};

/// Where the numbers lie, in the walk's order: for a structure that stays where it is.
struct NumberPlaces final : NumberVisitor {
  struct Place {
    int64_t* at;   ///< null: only a walk can put a number there
    int64_t base;  ///< what lies there is so much more
  };
  std::vector<Place> places;

  void number(int64_t& value, NumberKind) override { places.push_back({&value, 0}); }
  void made(int64_t&, NumberKind) override { places.push_back({nullptr, 0}); }
  void above(int64_t& value, int64_t base, NumberKind) override {
    places.push_back({&value, base});
  }
  void word(int64_t&) override {}
};

}  // namespace graft::ir
