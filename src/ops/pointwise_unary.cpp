// Elementary functions of one operand. Where ATen's kernel is MKL's VML for Float and Double
// (UnaryOpsKernel.cpp's IMPLEMENT_*_KERNEL), Half and BFloat16 go through SLEEF; `Args::routine`
// chooses.
#include "ops/pointwise.h"

#include <cmath>
#include <limits>

namespace graft::ops {

namespace {

using c10::ScalarType;
using ir::Op;
using ir::Routine;
using ir::Value;

/// A function that ATen computes on whole arrays (Float, Double) and on vectors (Half, BFloat16),
/// tails and strided loops included.
template <Routine array, Routine vector>
Value library(Args& a) {
  return a.routine(array, vector, a[0]);
}

template <Routine routine>
Value one_call(Args& a) {
  return ir::call(routine, a[0]);
}

/// Rounding to an integer is the identity on integers.
template <Op op>
Value rounding(Args& a) {
  return a.is_float() ? a[0].op(op) : a[0];
}

Value negate(Args& a) {
  return a.is_bool() ? a.refuse("negation of Bool") : -a[0];
}

Value absolute(Args& a) {
  return a.is_bool() || a.common == ScalarType::Byte ? a[0] : a[0].op(Op::Abs);
}

/// (0 < a) − (a < 0): 0 for NaN.
Value sign(Args& a) {
  Value x = a[0];
  if (a.is_bool()) return x;
  Value zero = x.like(0), one = x.like(1);
  return ir::select(ir::lt(zero, x), one, zero) - ir::select(ir::lt(x, zero), one, zero);
}

/// round(a * 10^decimals) / 10^decimals, in the order of round_decimals_kernel.
Value round_decimals(Args& a) {
  Value x = a[0];
  auto decimals = a.constant("decimals");
  if (!a.is_float() || !decimals) return a.is_float() ? x.op(Op::RoundEven) : x;
  int64_t digits = decimals->toLong();
  if (digits == 0) return x.op(Op::RoundEven);
  Value scale = a.scalar(std::pow(10, std::abs(digits)));
  return digits < 0 ? (x / scale).op(Op::RoundEven) * scale : (x * scale).op(Op::RoundEven) / scale;
}

Value erf(Args& a) {
  return a.is_reduced() && !a.is_fast() ? vector_erf(a, a[0])
                                        : library<Routine::ArrayErf, Routine::VectorErf>(a);
}

Value erfinv(Args& a) {
  if (!a.has_array_routines()) return a.refuse("libtorch has no MKL");
  return ir::call(Routine::ArrayErfinv, a[0]);
}

Value nan_to_num(Args& a) {
  Value x = a[0];
  if (!a.is_float()) return x;
  auto replacement = [&](const char* name, double otherwise) {
    return a.constant(name) ? a.rounded(name) : a.scalar(otherwise);
  };
  double inf = std::numeric_limits<double>::infinity();
  double largest = find_dtype(a.common)->largest;
  Value low = ir::select(ir::eq(x, x.like(-inf)), replacement("neginf", -largest), x);
  Value high = ir::select(ir::eq(x, x.like(inf)), replacement("posinf", largest), low);
  return ir::select(ir::isnan(x), replacement("nan", 0), high);
}

/// log(x / (1 − x)), x first clamped to [eps, 1 − eps] when eps is given.
Value logit(Args& a) {
  Value x = a[0], one = x.like(1);
  if (auto eps = a.constant("eps"); eps && eps->toDouble() >= 0) {
    Value low = a.rounded("eps");
    x = at_most(at_least(x, low), a.round(one - low));
  }
  Value odds = ir::select(ir::eq(x, one), x.like(std::numeric_limits<double>::infinity()),
                          a.round(x / a.round(one - x)));
  return a.routine(Routine::ArrayLog, Routine::VectorLog, odds);
}

}  // namespace

std::vector<PointwiseRow> unary_rows() {
  using enum Promotion;
  using enum Exactness;
  using enum Routine;
  return {
      {"aten::neg", 1, Same, negate, Domain::Any, Bits, "−a"},
      {"aten::abs", 1, Same, absolute, Domain::Any, Bits, "|a|"},
      {"aten::sign", 1, Same, sign, Domain::Any, Bits, "(0 < a) − (a < 0)"},
      {"aten::sgn", 1, Same, sign, Domain::Any, Bits, "(0 < a) − (a < 0)"},
      {"aten::reciprocal", 1, Float, [](Args& a) { return 1 / a[0]; }, Domain::Any, Bits, "1 / a"},
      {"aten::sqrt", 1, Float, [](Args& a) { return library_root(a, a[0]); }, Domain::Positive,
       Bits, "√a"},
      {"aten::rsqrt", 1, Float, [](Args& a) { return reciprocal_of_root(a, a[0]); },
       Domain::Positive, Bits, "1 / √a (*body* on bf16, f16: a tail also rounds √a)"},
      {"aten::exp", 1, Float, library<ArrayExp, VectorExp>, Domain::Small, Bits, "e to the a"},
      {"aten::exp2", 1, Float, one_call<VectorExp2>, Domain::Small, Body, "2 to the a"},
      {"aten::expm1", 1, Float, one_call<VectorExpm1>, Domain::Small, Bits, "e to the a, less 1"},
      {"aten::log", 1, Float, library<ArrayLog, VectorLog>, Domain::Positive, Bits,
       "natural logarithm"},
      {"aten::log2", 1, Float, library<ArrayLog2, VectorLog2>, Domain::Positive, Bits,
       "logarithm to base 2"},
      {"aten::log10", 1, Float, library<ArrayLog10, VectorLog10>, Domain::Positive, Bits,
       "logarithm to base 10"},
      {"aten::log1p", 1, Float, one_call<VectorLog1p>, Domain::Positive, Bits, "log(1 + a)"},
      {"aten::sin", 1, Float, library<ArraySin, VectorSin>, Domain::Any, Bits, "sine"},
      {"aten::cos", 1, Float, library<ArrayCos, VectorCos>, Domain::Any, Bits, "cosine"},
      {"aten::tan", 1, Float, library<ArrayTan, VectorTan>, Domain::Any, Bits, "tangent"},
      {"aten::asin", 1, Float, library<ArrayAsin, VectorAsin>, Domain::Unit, Bits, "inverse sine"},
      {"aten::acos", 1, Float, library<ArrayAcos, VectorAcos>, Domain::Unit, Bits,
       "inverse cosine"},
      {"aten::atan", 1, Float, library<ArrayAtan, VectorAtan>, Domain::Any, Bits,
       "inverse tangent"},
      {"aten::sinh", 1, Float, one_call<VectorSinh>, Domain::Small, Body, "hyperbolic sine"},
      {"aten::cosh", 1, Float, one_call<VectorCosh>, Domain::Small, Body, "hyperbolic cosine"},
      {"aten::tanh", 1, Float, library<ArrayTanh, VectorTanh>, Domain::Small, Bits,
       "hyperbolic tangent"},
      {"aten::asinh", 1, Float, one_call<ScalarAsinh>, Domain::Any, Bits,
       "inverse hyperbolic sine"},
      {"aten::acosh", 1, Float, one_call<ScalarAcosh>, Domain::AboveOne, Bits,
       "inverse hyperbolic cosine"},
      {"aten::atanh", 1, Float, one_call<VectorAtanh>, Domain::Unit, Body,
       "inverse hyperbolic tangent"},
      {"aten::erf", 1, Float, erf, Domain::Small, Bits, "error function"},
      {"aten::erfc", 1, Float, library<ArrayErfc, VectorErfc>, Domain::Small, Bits, "1 − erf(a)"},
      {"aten::erfinv", 1, Float, erfinv, Domain::Unit, Bits, "inverse error function"},
      {"aten::floor", 1, Same, rounding<Op::Floor>, Domain::Any, Bits, "⌊a⌋"},
      {"aten::ceil", 1, Same, rounding<Op::Ceil>, Domain::Any, Bits, "⌈a⌉"},
      {"aten::trunc", 1, Same, rounding<Op::Trunc>, Domain::Any, Bits, "a without its fraction"},
      {"aten::round", 1, Same, round_decimals, Domain::Any, Bits,
       "nearest, halves to even; or to `decimals` digits"},
      {"aten::frac", 1, Same, [](Args& a) { return a[0] - a[0].op(Op::Trunc); }, Domain::Any, Bits,
       "a − trunc(a)"},
      {"aten::nan_to_num", 1, Same, nan_to_num, Domain::Any, Bits, "NaN and ±∞ replaced"},
      {"aten::logit", 1, Float, logit, Domain::OpenUnit, Body, "log(a / (1 − a))"},
  };
}

}  // namespace graft::ops
