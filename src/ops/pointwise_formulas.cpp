// Formulas that several families of pointwise operators share.
#include <ATen/Version.h>

#include <cmath>

#include "ops/pointwise.h"

namespace graft::ops {

using c10::ScalarType;
using ir::Op;
using ir::Routine;
using ir::Value;

Value contracted(Args& args, Value a, Value b, Value c) {
  return multiply_add(a, b, c, args.has_fma());
}

// VML's root of Float and Double is not always the nearest one; the instruction's, which the others
// take, is.
Value library_root(Args& a, Value x) {
  const std::optional<Value> arrays = a.array_routine(Routine::ArraySqrt, x);
  return arrays ? *arrays : x.op(Op::Sqrt);
}

// The scalar loop rounds the root to bf16 before it divides, as baseline kernels do everywhere.
Value reciprocal_of_root(Args& a, Value x) {
  Value root = x.op(Op::Sqrt);
  if (!a.has_fma() || (a.is_reduced() && !a.goes_by_vector())) return 1 / a.round(root);
  if (a.is_reduced()) a.tail_differs();
  return 1 / root;
}

Value logistic(Value x) {
  return 1 / (1 + ir::call(Routine::VectorExp, -x));
}

Value maximum(Value a, Value b) {
  if (!is_float(a.type())) return ir::max(a, b);
  return ir::select(ir::gt(a, b) | ir::isnan(a), a, b);
}
Value minimum(Value a, Value b) {
  if (!is_float(a.type())) return ir::min(a, b);
  return ir::select(ir::lt(a, b) | ir::isnan(a), a, b);
}
Value at_least(Value a, Value low) {
  return ir::select(ir::lt(a, low), low, a);
}
Value at_most(Value a, Value high) {
  return ir::select(ir::gt(a, high), high, a);
}

Value elu_slope(Args& a) {
  auto host = [&](std::string_view name) {
    return converted(a.constant(name).value_or(1), a.compute).toDouble();
  };
  const double alpha = host("alpha"), scale = host("scale");
  return a.scalar(a.compute == ScalarType::Double
                      ? alpha * scale
                      : static_cast<float>(alpha) * static_cast<float>(scale));
}

bool is_nan(const std::optional<c10::Scalar>& number) {
  return number && number->isFloatingPoint() && std::isnan(number->toDouble());
}

// Vectorized<float>::erf: the polynomial 7.1.26 of Abramowitz and Stegun with fused multiply-adds,
// which ATen's float kernels use inside other functions (its own erf operator is VML's).
// Vectorized<double>::erf is SLEEF's.
Value vector_erf(Args& a, Value x) {
  if (x.type() == ScalarType::Double || !a.has_fma()) return ir::call(Routine::VectorErf, x);
  auto k = [&](float c) { return x.like(c); };
  Value t = 1 / ir::fma(k(0.3275911f), x.op(Op::Abs), k(1.0f));
  Value r = ir::fma(k(1.061405429f), t, k(-1.453152027f));
  r = ir::fma(r, t, k(1.421413741f));
  r = ir::fma(r, t, k(-0.284496736f));
  r = ir::fma(r, t, k(0.254829592f));
  Value e = ir::call(Routine::VectorExp, -(x * x));
  Value magnitude = ir::fma(-e * t, r, k(1.0f));
  // ATen flips the magnitude's sign by x's sign bit; the magnitude itself may round to −0.
  Value one = k(1.0f);
  return ir::select(ir::lt(one.op(Op::CopySign, x), k(0.0f)), -magnitude, magnitude);
}

// The tail beyond |x| is the density times a polynomial of t = 1 / (1 + 0.3 |x| / √2), fitted to a
// relative error of 2e-8 up to where the density is subnormal.
Normal normal(Args& a, Value x) {
  auto k = [&](double c) { return x.like(c); };
  const Value power = ir::call(Routine::VectorExp, x * x * -0.5);
  const Value t = 1 / contracted(a, x.op(Op::Abs), k(0.3 * M_SQRT1_2), k(1));
  Value tail = k(-0.12943409387300225);
  for (double c :
       {0.48509651800889286, -0.5112265861303589, 0.5463952147692454, -0.09363137410985259,
        0.21443633621441455, 0.14848241343513063, 0.17069193762578966, 0.16918961461323695})
    tail = contracted(a, tail, t, k(c));
  tail = 0.5 * power * (t * tail);
  return {(M_2_SQRTPI * M_SQRT1_2 * 0.5) * power, ir::select(ir::lt(x, k(0)), tail, 1 - tail)};
}

}  // namespace graft::ops
