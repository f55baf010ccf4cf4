// Writes statements the way one writes formulas.
//
//     StatementBuilder s({4096, 2048});
//     Value x = s.load(x_view).to(kFloat), r = s.load(r_view).to(kFloat);
//     Statement h = s.store(h_view, (x + r).to(kBFloat16));
#pragma once

#include <c10/core/Scalar.h>

#include "ir/program.h"

namespace graft::ir {

class StatementBuilder;

/// A node under construction. Operators demand equal types on both sides (std::logic_error
/// otherwise): casts are explicit. A plain number beside a Value becomes a structural constant of
/// the Value's type.
struct Value {
  StatementBuilder* builder = nullptr;
  NodeId id = -1;
  ScalarType type() const;
  Value to(ScalarType type) const;  ///< Cast, or itself
  Value op(Op op) const;
  Value op(Op op, Value b) const;
  Value like(double constant) const;  ///< a constant of this value's type
};
Value operator+(Value a, Value b);
Value operator-(Value a, Value b);
Value operator*(Value a, Value b);
Value operator/(Value a, Value b);
Value operator-(Value a);
Value operator&(Value a, Value b);
Value operator|(Value a, Value b);
Value operator^(Value a, Value b);
Value operator~(Value a);
Value operator+(Value a, double b);
Value operator-(Value a, double b);
Value operator*(Value a, double b);
Value operator/(Value a, double b);
Value operator+(double a, Value b);
Value operator-(double a, Value b);
Value operator*(double a, Value b);
Value operator/(double a, Value b);
/// Comparisons by name: == on Values would read as identity.
Value eq(Value a, Value b);
Value ne(Value a, Value b);
Value lt(Value a, Value b);
Value le(Value a, Value b);
Value gt(Value a, Value b);
Value ge(Value a, Value b);
Value select(Value condition, Value a, Value b);
Value max(Value a, Value b);
Value min(Value a, Value b);
Value fma(Value a, Value b, Value c);
Value call(Routine routine, Value a);
Value call(Routine routine, Value a, Value b);
Value isnan(Value a);

class StatementBuilder {
 public:
  explicit StatementBuilder(std::vector<int64_t> axes);

  /// Loads element [axes] of a view whose sizes are broadcast to the axes (aligned at the last
  /// axis, as ATen's).
  Value load(const View& view);
  /// Loads through an explicit access (one stride per axis).
  Value load(Access access);
  Value constant(double value, ScalarType type);
  Value integer(int64_t value, ScalarType type);
  /// A kernel argument rather than part of the structure: for numbers that came with the recorded
  /// call.
  Value scalar(const c10::Scalar& value, ScalarType type);
  Value axis(int axis);  ///< the axis's index, as Long

  /// Declares the statement's reduction of `input` over `axes`; gives the accumulated value, of
  /// type `accumulate`. Each term is cast to that first, except in a sum of Float (and narrower)
  /// terms in Double: see Reduction::input.
  Value reduce(ReduceOp op, Value input, std::vector<bool> axes, ScalarType accumulate,
               bool scan = false);

  /// Finishes. `view` has the axes' sizes (for a reduction: the reduced axes may be missing or 1;
  /// strides there count as 0, except for a scan). `value` is cast to the view's dtype.
  Statement store(const View& view, Value value);
  Statement store(Access access, Value value);

  Statement statement;
};

/// Access of a view under broadcasting to `axes`. Throws std::logic_error when the sizes do not
/// broadcast or the byte offset is not a multiple of the element size.
Access access_of(const View& view, const std::vector<int64_t>& axes);
int64_t numel(const std::vector<int64_t>& sizes);
std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& sizes);

}  // namespace graft::ir
