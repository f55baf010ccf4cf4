// The backward of activations and losses whose elements stand alone, from ATen's Activation.cpp and
// BinaryOpsKernel.cpp.
#include <cmath>
#include <limits>

#include "ops/pointwise.h"

namespace graft::ops {

namespace {

using ir::Routine;
using ir::Value;

/// As autograd calls them. Other layouts go through ATen's scalar loops, whose bits differ.
bool lie_alike(const Args& a, int x = 1) {
  return a.is_tensor(0) && a.is_tensor(x) && a.is_laid_out_as_result(0) &&
         a.is_laid_out_as_result(x);
}
/// Or parts of rows (SwiGLU's halves of one product), whose inner loop goes by vectors, too.
bool go_alike(const Args& a) {
  return lie_alike(a) || (a.is_tensor(0) && a.is_tensor(1) && a.goes_by_whole_vectors());
}
constexpr const char* kApart = "a gradient that lies otherwise than what it goes through";
constexpr const char* kHalf = "half precision, of which each step is rounded";

/// Operands: the gradient, the sigmoid.
Value sigmoid_backward(Args& a) {
  if (!go_alike(a)) return a.refuse(kApart);
  if (a.common == c10::ScalarType::Half && !a.is_fast()) return a.refuse(kHalf);
  return a[0] * (1 - a[1]) * a[1];
}

/// Operands: the gradient, the tanh.
Value tanh_backward(Args& a) {
  if (!go_alike(a)) return a.refuse(kApart);
  if (a.common == c10::ScalarType::Half && !a.is_fast()) return a.refuse(kHalf);
  return a[0] * contracted(a, -a[1], a[1], a[1].like(1));
}

/// Operands: the gradient, x.
Value silu_backward(Args& a) {
  if (!go_alike(a)) return a.refuse(kApart);
  const Value x = a[1], sigmoid = logistic(x);
  return a[0] * sigmoid * contracted(a, x, 1 - sigmoid, x.like(1));
}

Value gelu_backward(Args& a) {
  if (!lie_alike(a)) return a.refuse(kApart);
  const Value x = a[1];
  const double beta = M_SQRT2 * M_2_SQRTPI * 0.5;
  if (a.text("approximate") == "tanh") {
    const Value square = x * x, cube = square * x;
    const Value inner = beta * contracted(a, x.like(0.044715), cube, x);
    const Value tanh = ir::call(Routine::VectorTanh, inner);
    const Value left = 0.5 * x, right = 1 + tanh;
    const Value tanh_slope = contracted(a, -tanh, tanh, x.like(1));
    const double triple = a.common == c10::ScalarType::Double ? 3 * 0.044715 : 3.0F * 0.044715F;
    const Value inner_slope = beta * contracted(a, x.like(triple), square, x.like(1));
    return a[0] * contracted(a, right.like(0.5), right, left * tanh_slope * inner_slope);
  }
  if (a.is_one_dnn(1)) {
    const Normal at = normal(a, x);
    return a[0] * contracted(a, x, at.density, at.integral);
  }
  const Value cdf = 0.5 * (1 + vector_erf(a, x * M_SQRT1_2));
  const Value pdf = (M_2_SQRTPI * M_SQRT1_2 * 0.5) * ir::call(Routine::VectorExp, x * x * -0.5);
  return a[0] * contracted(a, x, pdf, cdf);
}

/// Operands: the gradient, x. Also relu's.
Value threshold_backward(Args& a) {
  return ir::select(ir::le(a[1], a.number("threshold")), a[0].like(0), a[0]);
}

Value leaky_relu_backward(Args& a) {
  return a[0] * ir::select(ir::gt(a[1], a[1].like(0)), a[1].like(1), a.number("negative_slope"));
}

Value softplus_backward(Args& a) {
  const Value scaled = a[1] * a.number("beta"), power = ir::call(Routine::VectorExp, scaled);
  return ir::select(ir::gt(scaled, a.number("threshold")), a[0], a[0] * power / (power + 1));
}

/// Operands: the gradient, …, x or elu's result at x.
Value elu_backward(Args& a) {
  constexpr int kX = 5;
  if (!lie_alike(a, kX)) return a.refuse(kApart);
  const Value x = a[kX], inner = a.number("input_scale"), slope = elu_slope(a), g = a[0] * inner;
  const bool of_result = a.constant("is_result").value_or(0).toBool();
  const Value below =
      of_result ? g * (x + slope) : g * slope * ir::call(Routine::VectorExp, x * inner);
  return ir::select(ir::gt(x, x.like(0)), a[0] * a.number("scale"), below);
}

/// Operands: the gradient, x.
Value hardtanh_backward(Args& a) {
  if (!lie_alike(a)) return a.refuse(kApart);
  if (is_nan(a.constant("min_val")) || is_nan(a.constant("max_val")))
    return a.refuse("bounds that are NaN, of which eager's tails think otherwise");
  const Value inside = ir::gt(a[1], a.number("min_val")) & ir::lt(a[1], a.number("max_val"));
  return ir::select(inside, a[0], a[0].like(0));
}

Value hardsigmoid_backward(Args& a) {
  const Value x = a[1], inside = ir::gt(x, x.like(-3)) & ir::lt(x, x.like(3));
  return ir::select(inside, a[0] * x.like(1.0F / 6.0F), x.like(0));  // of doubles, too
}

Value hardswish_backward(Args& a) {
  if (!lie_alike(a)) return a.refuse(kApart);
  const Value x = a[1], between = a[0] * (x / 3 + 0.5);
  return ir::select(ir::le(x, x.like(-3)), x.like(0),
                    ir::select(ir::ge(x, x.like(3)), a[0], between));
}

/// Also softshrink's and hardshrink's.
Value shrink_backward(Args& a) {
  if (!lie_alike(a)) return a.refuse(kApart);
  const Value x = a[1], by = a.rounded("lambd");
  return ir::select(ir::lt(x, -by) | ir::gt(x, by), a[0], x.like(0));
}

/// Operands: the gradient, x, exp(−|x|).
Value log_sigmoid_backward(Args& a) {
  const Value one = a[1].like(1), zero = a[1].like(0), below = ir::lt(a[1], zero);
  const Value part = ir::select(below, one, -one) * (a[2] / (1 + a[2]));
  return (ir::select(below, one, zero) - part) * a[0];
}

/// Operands: the gradient, x.
Value mish_backward(Args& a) {
  if (!lie_alike(a)) return a.refuse(kApart);
  const Value x = a[1], sigmoid = logistic(x);
  const Value softplus = ir::call(Routine::VectorLog1p, ir::call(Routine::VectorExp, x));
  const Value tanh = ir::call(Routine::VectorTanh, softplus);
  return a[0] * contracted(a, x * sigmoid, contracted(a, -tanh, tanh, x.like(1)), tanh);
}

/// Operands: the gradient, x. Half precision rounds each step.
Value logit_backward(Args& a) {
  if (!lie_alike(a)) return a.refuse(kApart);
  const double eps = a.constant("eps").value_or(-1).toDouble();
  const Value x = a[1], one = x.like(1), low = a.rounded("eps");
  const Value slope = a[0] / a.round(x * a.round(one - x));
  if (eps < 0)
    return ir::select(ir::ge(x, x.like(0)) & ir::le(x, one), slope,
                      x.like(std::numeric_limits<double>::quiet_NaN()));
  return ir::select(ir::ge(x, low) & ir::le(x, a.round(one - low)), slope, x.like(0));
}

/// Operands: the gradient, x, the slope where x is not above 0.
Value prelu_backward(Args& a) {
  return ir::select(ir::gt(a[1], a[1].like(0)), a[0], a[2] * a[0]);
}
Value prelu_slope_backward(Args& a) {
  return ir::select(ir::gt(a[1], a[1].like(0)), a[1].like(0), a[1] * a[0]);
}

/// Operands: the gradient, which elements were kept.
Value dropout_backward(Args& a) {
  if (!a.is_float_tensor(0)) return a.refuse("a gradient of integers");
  return a.round(a[0] * a.truth(1).to(a.compute)) * a.number("scale");
}

constexpr unsigned kGradientAndX = 1U << 0 | 1U << 5;  ///< of elu_backward's arguments

}  // namespace

std::vector<PointwiseRow> backward_rows() {
  using enum Promotion;
  using enum Exactness;
  std::vector<PointwiseRow> rows = {
      {"aten::sigmoid_backward", 2, Same, sigmoid_backward, Domain::Any, Bits,
       "gradient a through a sigmoid b"},
      {"aten::tanh_backward",
       2,
       Same,
       tanh_backward,
       Domain::Any,
       {Body, 4},
       "gradient a through a tanh b"},
      {"aten::silu_backward",
       2,
       Same,
       silu_backward,
       Domain::Small,
       {Body, 8},
       "gradient a through silu at b"},
      {"aten::gelu_backward",
       2,
       Same,
       gelu_backward,
       Domain::Small,
       {Close, 16},
       "gradient a through gelu at b"},
      {"aten::threshold_backward", 2, Same, threshold_backward, Domain::Any, Bits,
       "0 where b <= threshold, else a"},
      {"aten::leaky_relu_backward", 2, Same, leaky_relu_backward, Domain::Any, Bits,
       "a, times negative_slope where b is not above 0"},
      {"aten::softplus_backward",
       2,
       Same,
       softplus_backward,
       Domain::Small,
       {Body, 8},
       "gradient a through softplus at b"},
      {"aten::elu_backward",
       6,
       Same,
       elu_backward,
       Domain::Branching,
       {Body, 4},
       "gradient through elu, of its operand or its result",
       nullptr,
       kGradientAndX},
      {"aten::hardtanh_backward", 2, Same, hardtanh_backward, Domain::Branching, Bits,
       "a where b lies between min_val and max_val, else 0"},
      {"aten::hardsigmoid_backward", 2, Same, hardsigmoid_backward, Domain::Any, Bits,
       "a / 6 where b lies between -3 and 3, else 0"},
      {"aten::hardswish_backward", 2, Same, hardswish_backward, Domain::Branching, Bits,
       "gradient a through hardswish at b"},
      {"aten::softshrink_backward", 2, Same, shrink_backward, Domain::Branching, Bits,
       "0 where b lies within lambd, else a"},
      {"aten::hardshrink_backward", 2, Same, shrink_backward, Domain::Branching, Bits,
       "0 where b lies within lambd, else a"},
      {"aten::log_sigmoid_backward", 3, Same, log_sigmoid_backward, Domain::Any, Bits,
       "gradient a through log_sigmoid at b, of which c is exp(−|b|)"},
      {"aten::mish_backward",
       2,
       Same,
       mish_backward,
       Domain::Small,
       {Body, 64},
       "gradient a through mish at b"},
      {"aten::logit_backward", 2, Same, logit_backward, Domain::Branching, Bits,
       "a / (b (1 − b)) where b lies between eps and 1 − eps"},
      {"aten::native_dropout_backward", 2, Float, dropout_backward, Domain::Any, Bits,
       "scale a where b, else 0", nullptr, 1U << 0},
      {"aten::_prelu_kernel_backward", 3, Same, prelu_backward, Domain::Any, Bits,
       "a, c a where b is not above 0; and 0, a b there"},
  };
  rows.back().second = prelu_slope_backward;
  return rows;
}

}  // namespace graft::ops
