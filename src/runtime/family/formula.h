// Numbers of a program as formulas of the sizes of its arguments, found from examples.
#pragma once

#include <c10/util/SmallVector.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/numbers.h"

namespace graft::runtime {

/// One example: the values of the symbols, which are sizes of arguments.
using Point = c10::SmallVector<int64_t, 3>;
/// "3, 5"
std::string list(std::span<const int64_t> values);

/// (a * s*t + b * s + c) / d + e * s * blocks, where blocks = floor((f * s + g - 1) / h) are those
/// in front of the last one; or as a double that number, its inverse, its root, or the inverse of
/// its root.
struct Formula {
  /// The product of up to three symbols; -1: none.
  using Monomial = std::array<int8_t, 3>;
  struct Term {
    int64_t factor;
    Monomial of;
  };
  enum class Form : uint8_t { Integer, Double, Inverse, Root, InverseRoot } form = Form::Integer;
  bool single = false;  ///< the double was rounded to fp32
  std::vector<Term> terms = {};
  int64_t constant = 0, divisor = 1;
  /// Whole blocks of `length` in front of the last one, which may be whole, too.
  struct Blocks {
    int64_t factor = 0, length = 1;
    Monomial of = {-1, -1, -1};  ///< what their number is multiplied with
    std::vector<Term> terms = {};
    int64_t constant = 0;
  };
  Blocks blocks = {};

  bool is_constant() const { return terms.empty() && form == Form::Integer && blocks.factor == 0; }
  /// At a point; none where it is no whole number, or too large.
  std::optional<int64_t> at(std::span<const int64_t> point) const;
  /// "64*s + 2"; symbols are named by `names`.
  std::string text(const std::vector<std::string>& names) const;
};

/// Formulas that are evaluated together.
class Formulas {
 public:
  /// Its place.
  uint32_t add(Formula formula);
  size_t size() const { return all_.size(); }
  const Formula& operator[](size_t i) const { return all_[i]; }
  using Values = c10::SmallVector<int64_t, 32>;
  /// Of each, at a point of sizes below 2^31. False where one has no whole number, or too large a
  /// one.
  bool at(std::span<const int64_t> point, Values& values) const;

 private:
  /// Most are factor * symbol + constant.
  struct Line {
    int64_t factor, constant;
    int8_t symbol;  ///< -1: another formula
  };
  std::vector<Formula> all_;
  std::vector<Line> lines_;
};

/// The simplest formula that gives each value at its point. It must be the one that the other
/// points give without any one of them, unless the points are `all` there will be. None where there
/// is no such formula.
///
/// `extents`: formulas of what may be cut into blocks.
std::optional<Formula> explain(std::span<const Point> points, std::span<const int64_t> values,
                               ir::NumberKind kind, std::span<const Formula> extents = {},
                               bool all = false);

}  // namespace graft::runtime
