// Activations, from ATen's Activation.cpp, Elu.h and Gelu.h. Their vector bodies use SLEEF, their
// scalar tails libm.
#include "ops/pointwise.h"

#include <cmath>
#include <limits>

namespace graft::ops {

namespace {

using ir::Op;
using ir::Routine;
using ir::Value;

/// 1 / (1 + exp(−a)); for Float and Double the kernel subtracts from 0, which differs in nothing
/// but −0.
Value sigmoid(Args& a) {
  return logistic(a[0]);
}

Value silu(Args& a) {
  Value x = a[0];
  return x / (1 + ir::call(Routine::VectorExp, -x));
}

Value mish(Args& a) {
  Value x = a[0];
  Value softplus = ir::call(Routine::VectorLog1p, ir::call(Routine::VectorExp, x));
  return x * ir::call(Routine::VectorTanh, softplus);
}

Value gelu(Args& a) {
  const bool one_dnn = a.is_one_dnn(0);
  // oneDNN then makes a result of its own, and eager leaves out= as it was.
  if (one_dnn && a.is_out() && !a.is_laid_out_as_result(0))
    return a.refuse("out= has other strides than the input");
  Value x = a[0];
  if (a.text("approximate") == "tanh") {
    Value cube = x * x * x;  // the multiply-add below is the compiler's, in ATen's AVX2 body
    Value inner = (M_SQRT2 * M_2_SQRTPI * 0.5) * contracted(a, x.like(0.044715), cube, x);
    return 0.5 * x * (1 + ir::call(Routine::VectorTanh, inner));
  }
  if (!one_dnn) return x * 0.5 * (1 + vector_erf(a, x * M_SQRT1_2));
  // Below, 1 + erf is 0 in fp64, too.
  return x * ir::select(ir::lt(x, x.like(-8.29)), x.like(0), normal(a, x).integral);
}

Value relu(Args& a) {
  return a.is_bool() ? a.refuse("relu of Bool") : at_least(a[0], a[0].like(0));
}

/// ATen's is clamp(), of which a bound that is NaN makes everything NaN.
Value hardtanh(Args& a) {
  if (is_nan(a.constant("min_val")) || is_nan(a.constant("max_val")))
    return a[0].like(std::numeric_limits<double>::quiet_NaN());
  return at_most(at_least(a[0], a.rounded("min_val")), a.rounded("max_val"));
}

/// min(max(a + 3, 0), 6)
Value clamped_to_six(Value x) {
  return minimum(maximum(x + 3, x.like(0)), x.like(6));
}

Value leaky_relu(Args& a) {
  Value x = a[0];
  return x * ir::select(ir::gt(x, x.like(0)), x.like(1), a.number("negative_slope"));
}

Value elu_of(Value x, Value negative, Value positive, Value inner) {
  Value below = ir::call(Routine::VectorExpm1, x * inner) * negative;
  return ir::select(ir::ge(x, x.like(0)), x * positive, below);
}

Value elu(Args& a) {
  return elu_of(a[0], elu_slope(a), a.number("scale"), a.number("input_scale"));
}

Value celu(Args& a) {
  double alpha = a.constant("alpha").value_or(1).toDouble();
  return elu_of(a[0], a.scalar(alpha), a.scalar(1), a.scalar(1. / alpha));
}

Value softplus(Args& a) {
  Value x = a[0], beta = a.number("beta"), scaled = x * beta;
  Value soft = ir::call(Routine::VectorLog1p, ir::call(Routine::VectorExp, scaled)) / beta;
  return ir::select(ir::gt(scaled, a.number("threshold")), x, soft);
}

Value threshold(Args& a) {
  return ir::select(ir::le(a[0], a.number("threshold")), a.number("value"), a[0]);
}

/// b is the slope, one per channel.
Value prelu(Args& a) {
  return ir::select(ir::gt(a[0], a[0].like(0)), a[0], a[1] * a[0]);
}

Value softshrink(Args& a) {
  Value x = a[0], by = a.number("lambd");
  const auto number = a.constant("lambd");
  if (!number || std::isinf(number->toDouble()))
    return a.refuse("within an infinite lambd eager's tails make infinities NaN");
  a.either_zero();  // eager's tails multiply by 0
  const Value within = ir::select(ir::ne(x, x), x, x.like(0));
  return ir::select(ir::gt(x, by), x - by, ir::select(ir::lt(x, -by), x + by, within));
}

Value hardshrink(Args& a) {
  Value x = a[0], by = a.rounded("lambd");
  return ir::select(ir::ge(x, -by) & ir::le(x, by), x.like(0), x);
}

/// exp(−|a|), which log_sigmoid keeps for its backward.
Value log_sigmoid_buffer(Args& a) {
  return ir::call(Routine::VectorExp, -a[0].op(Op::Abs));
}

Value log_sigmoid(Args& a) {
  // What the AVX2 kernels leave in the buffer of half-precision inputs is not what the AVX-512 ones
  // do.
  if (a.is_reduced())
    return a.refuse("ATen's half-precision kernels do not agree on its second result");
  Value x = a[0];
  return minimum(x, x.like(0)) - ir::call(Routine::VectorLog1p, log_sigmoid_buffer(a));
}

}  // namespace

std::vector<PointwiseRow> activation_rows() {
  using enum Promotion;
  using enum Exactness;
  std::vector<PointwiseRow> rows = {
      {"aten::sigmoid", 1, Float, sigmoid, Domain::Small, {Body, 4}, "1 / (1 + exp(−a))"},
      {"aten::silu", 1, Same, silu, Domain::Small, {Body, 4}, "a / (1 + exp(−a))"},
      {"aten::gelu", 1, Same, gelu, Domain::Small, Close, "a Φ(a), by erf or tanh"},
      {"aten::mish", 1, Same, mish, Domain::Small, {Body, 8}, "a tanh(log(1 + exp(a)))"},
      {"aten::relu", 1, Same, relu, Domain::Any, Bits, "0 where a < 0"},
      {"aten::leaky_relu", 1, Same, leaky_relu, Domain::Any, Bits,
       "a, times negative_slope where not above 0"},
      {"aten::hardtanh", 1, Same, hardtanh, Domain::Any, Bits, "a clamped to [min_val, max_val]"},
      {"aten::hardsigmoid", 1, Same, [](Args& a) { return clamped_to_six(a[0]) / 6; }, Domain::Any,
       Bits, "min(max(a + 3, 0), 6) / 6"},
      {"aten::hardswish", 1, Same, [](Args& a) { return a[0] * clamped_to_six(a[0]) / 6; },
       Domain::Any, Bits, "a min(max(a + 3, 0), 6) / 6"},
      {"aten::elu", 1, Same, elu, Domain::Small, Body,
       "scale a, or scale alpha expm1(input_scale a) below 0"},
      {"aten::celu", 1, Same, celu, Domain::Small, Body, "a, or alpha expm1(a / alpha) below 0"},
      {"aten::softplus",
       1,
       Same,
       softplus,
       Domain::Small,
       {Body, 4},
       "log(1 + exp(beta a)) / beta, a above threshold"},
      {"aten::threshold", 1, Same, threshold, Domain::Any, Bits, "value where a <= threshold"},
      {"aten::_prelu_kernel", 2, Same, prelu, Domain::Any, Bits, "a, b a where a is not above 0"},
      {"aten::softshrink", 1, Same, softshrink, Domain::Any, Bits,
       "a moved towards 0 by lambd, 0 within it"},
      {"aten::hardshrink", 1, Same, hardshrink, Domain::Any, Bits, "0 within lambd, else a"},
      {"aten::log_sigmoid_forward", 1, Same, log_sigmoid, Domain::Small, Bits,
       "min(a, 0) − log(1 + exp(−|a|))"},
  };
  rows.back().second = log_sigmoid_buffer;
  return rows;
}

}  // namespace graft::ops
