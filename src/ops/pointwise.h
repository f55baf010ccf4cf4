// The table of pointwise operators: one row per operator, from which its lowering, its
// documentation and its tests come.
//
// A row's formula computes one element. Its operands have the compute type: the common dtype of the
// operands, or Float where that is Half or BFloat16 (ATen's opmath type). Its value is rounded to
// the common dtype once, and then cast to the output's dtype. Formulas follow ATen's *vectorised*
// CPU kernels operation by operation.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/context.h"
#include "ops/schema.h"

namespace graft::ops {

/// How the common dtype, and the result's, follow from the operands' dtypes.
enum class Promotion : uint8_t {
  Same,     ///< ATen's result_type of the operands; the result has it too
  Float,    ///< likewise, where integers and Bool become the default floating dtype
  Divide,   ///< Float, but Same when the schema's rounding_mode is given
  Compare,  ///< computed in result_type; the formula gives a Bool
};

/// The values that tests give to each operand, besides special values.
enum class Domain : uint8_t {
  Any,
  Positive,    ///< logarithms, square roots
  Unit,        ///< [-1, 1]
  OpenUnit,    ///< (0, 1)
  AboveOne,    ///< [1, ∞)
  Small,       ///< [-20, 20]: exponentials stay finite
  Divisor,     ///< second operand not zero
  ShiftCount,  ///< second operand from -1 to the width
  Power,       ///< base positive, exponent in [-4, 4]
  /// [-20, 20], and after the first operand neither NaN nor −0: eager's tails take other branches
  /// there than its vectors do.
  Branching,
};

enum class Exactness : uint8_t {
  Bits,  ///< eager's bits, whatever the layout
  /// The bits of ATen's vectorised loop. Its scalar tails (and strided loops) call another function
  /// or round differently, by about one unit in the last place.
  Body,
  /// Eager calls another library (oneDNN), which has a polynomial of its own. Results are no
  /// further from the exact value than eager's.
  Close,
};

/// What a row promises of floating results.
struct RowBits {
  Exactness exactness;
  /// How far eager's tails may be, in units in the last place of the common dtype: of Body, and of
  /// Bits where a call has tail_differs().
  int tail_ulps;
  constexpr RowBits(Exactness exactness, int tail_ulps = 2)
      : exactness(exactness), tail_ulps(tail_ulps) {}
};

/// Operands and arguments of one recorded call, for its row's formula.
class Args {
 public:
  Args(Context& context, const record::OperatorRecord& op, ir::StatementBuilder& builder,
       c10::ScalarType common);

  /// Operand k (schema argument k, a tensor or a Scalar), rounded to the common dtype, in the
  /// compute type.
  ir::Value operator[](int k);
  /// Likewise, without rounding to the common dtype: some kernels read a scalar operand beside a
  /// bf16 tensor so.
  ir::Value unrounded(int k);
  /// Operand k as a truth value.
  ir::Value truth(int k);
  bool has(int k) const;        ///< false for None
  bool is_tensor(int k) const;  ///< a tensor, perhaps one that wraps a number
  bool is_number(int k) const;  ///< a Scalar, or a tensor that wraps one
  bool is_single(int k) const;  ///< a Scalar or a tensor of one element
  /// The number's value. Of a number that changes from call to call there is none, and the operator
  /// stays extern.
  std::optional<c10::Scalar> constant(int k);
  bool varies(std::string_view name) const;  ///< such a number
  bool varies(int k) const;
  std::optional<c10::Scalar> known(int k) const;  ///< the number's value, if it does not vary

  /// A Scalar argument as a kernel argument in the compute type: rounded to the common dtype, or
  /// only to the compute type.
  ir::Value rounded(std::string_view name);
  ir::Value number(std::string_view name);
  ir::Value scalar(double value);  ///< a number computed from arguments
  std::optional<c10::Scalar> constant(std::string_view name);
  std::string text(std::string_view name) const;

  /// v rounded to the common dtype and back: where ATen's kernel keeps an intermediate in bf16.
  ir::Value round(ir::Value v) const;
  /// `array` for Float and Double, `vector` for Half and BFloat16, and wherever libtorch has no
  /// MKL; always `vector` under Numerics::Fast.
  ir::Value routine(ir::Routine array, ir::Routine vector, ir::Value x) const;
  /// `array`, or the formula by which MKL computes it; nothing where `routine` takes `vector`.
  std::optional<ir::Value> array_routine(ir::Routine array, ir::Value x) const;

  bool is_fast() const;  ///< Numerics::Fast
  /// False: ATen runs its baseline kernels, which multiply and add in two roundings.
  bool has_fma() const;
  bool has_array_routines() const;  ///< ATen computes on whole arrays, with MKL
  bool is_one_dnn(int k) const;     ///< ATen gives operand k's dtype to oneDNN
  bool is_float() const;            ///< of the common dtype
  bool is_reduced() const;          ///< Half or BFloat16
  bool is_bool() const;
  bool is_float_tensor(int k) const;        ///< operand k is a tensor of a floating dtype
  bool makes_one() const;                   ///< the result has one element
  bool is_in_place() const;                 ///< the underscored form
  bool is_out() const;                      ///< the out= form
  bool is_laid_out_as_result(int k) const;  ///< operand k and the result have the same strides
  /// Operand k's stride along the axis that ATen's inner loop walks; a number has none: 0.
  int64_t inner_stride(int k) const;
  /// Do ATen's loops over two operands go vector by vector (but for their tails)? False only where
  /// they surely go element by element.
  bool goes_by_vector() const;
  /// … along rows of whole vectors?
  bool goes_by_whole_vectors() const;

  /// Says that in this call eager's scalar tails differ from its vectorised body: for rows where
  /// that depends on the arguments.
  void tail_differs() { tail_differs_ = true; }
  bool has_tail() const { return tail_differs_; }
  /// Says that the sign of a zero result is not determined: eager's body, tail and builds differ.
  void either_zero();
  /// The operator stays extern for this reason; the formula's value is ignored.
  ir::Value refuse(std::string why);
  const std::string& refusal() const { return refusal_; }

  ir::StatementBuilder& builder;
  const c10::ScalarType common;
  const c10::ScalarType compute;

 private:
  const record::Operand* operand(int k) const;
  /// The number of operand k, which varies.
  ir::Value varying(int k, bool round);
  ir::Value number_value(const c10::Scalar& value, bool round);
  ir::Value named_number(std::string_view name, bool round);

  Context& context_;
  const record::OperatorRecord& op_;
  bool tail_differs_ = false;
  std::string refusal_;
};

using Formula = ir::Value (*)(Args&);

struct PointwiseRow {
  std::string_view name;  ///< "aten::add": all its overloads, in-place and out= forms
  int operands;  ///< leading arguments of the schema that are operands (tensors or Scalars)
  Promotion promotion;
  Formula formula;
  Domain domain;
  RowBits bits;
  std::string_view what;  ///< the formula, for the documentation
  /// Gives a Bool: where eager throws (integer division by zero); an empty Value = nowhere.
  Formula raises = nullptr;
  unsigned promoted = ~0u;   ///< bit k: operand k takes part in promotion
  Formula second = nullptr;  ///< the second result's formula
};

/// Every row, families in order.
const std::vector<PointwiseRow>& pointwise_table();

std::vector<PointwiseRow> arithmetic_rows();  // pointwise_arithmetic.cpp
std::vector<PointwiseRow> comparison_rows();  // pointwise_comparison.cpp
std::vector<PointwiseRow> unary_rows();       // pointwise_unary.cpp
std::vector<PointwiseRow> activation_rows();  // pointwise_activation.cpp
std::vector<PointwiseRow> ternary_rows();     // pointwise_ternary.cpp
std::vector<PointwiseRow> backward_rows();    // pointwise_backward.cpp

// Formulas that several families use: selections follow the operand order of ATen's vector
// instructions, so that NaN and −0 come out alike.
/// The formula by which VML computes the function of Float, where it is known and code for the
/// target can.
std::optional<ir::Routine> known_formula(ir::Routine array, const ir::Target& target);
ir::Value vector_erf(Args& a,
                     ir::Value x);  ///< what ATen's float kernels use inside other functions
/// Of the standard normal distribution at x: its density, and its integral from -∞.
struct Normal {
  ir::Value density, integral;
};
/// In fp32, off by about x²/4 units in the last place of either, as the density is by rounding x².
Normal normal(Args& a, ir::Value x);
ir::Value library_root(Args& a, ir::Value x);        ///< ATen's sqrt operator
ir::Value reciprocal_of_root(Args& a, ir::Value x);  ///< ATen's rsqrt operator
/// a * b + c, fused where ATen's kernels have FMA
ir::Value contracted(Args& args, ir::Value a, ir::Value b, ir::Value c);
ir::Value logistic(ir::Value x);              ///< 1 / (1 + exp(−x))
ir::Value maximum(ir::Value a, ir::Value b);  ///< NaN if either is; b on ties
ir::Value minimum(ir::Value a, ir::Value b);
ir::Value at_least(ir::Value a, ir::Value low);  ///< clamp_min: a where it is NaN or ties
ir::Value at_most(ir::Value a, ir::Value high);
ir::Value elu_slope(Args& a);  ///< alpha * scale, rounded to the compute type
bool is_nan(const std::optional<c10::Scalar>& number);

}  // namespace graft::ops
