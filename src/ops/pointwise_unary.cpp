// Elementary functions of one operand. Where ATen's kernel is MKL's VML for Float and Double
// (UnaryOpsKernel.cpp's IMPLEMENT_*_KERNEL), Half and BFloat16 go through SLEEF; `Args::routine`
// chooses.
#include "ops/pointwise.h"

#include <array>
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

/// The derivative of the gamma function's logarithm, by the steps of ATen's calc_digamma. (Its
/// tangent is the C library's: rounded to Float, SLEEF's are the same.)
Value digamma(Args& a) {
  if (a.common == ScalarType::Double) return a.refuse("its tangent is the C library's");
  constexpr int kSteps = 10;  // to where the asymptotic series holds
  constexpr double kPi = 3.14159265358979323846, kAtTen = 2.25175258906672110764;
  constexpr std::array<double, 7> kSeries = {8.33333333333333333333E-2, -2.10927960927960927961E-2,
                                             7.57575757575757575758E-3, -4.16666666666666666667E-3,
                                             3.96825396825396825397E-3, -8.33333333333333333333E-3,
                                             8.33333333333333333333E-2};
  const double infinity = std::numeric_limits<double>::infinity();
  const Value given = a[0], zero = given.like(0), one = given.like(1), ten = given.like(kSteps);
  const Value is_below = ir::lt(given, zero), whole = given.op(Op::Trunc);
  Value x = ir::select(is_below, one - given, given), sum = zero;
  for (int k = 0; k < kSteps; ++k) {
    const Value goes_on = ir::lt(x, ten);
    sum = ir::select(goes_on, sum - one / x, sum);
    x = ir::select(goes_on, x + one, x);
  }
  const Value z = one / (x * x);
  Value series = zero;
  for (const double term : kSeries) series = series * z + term;
  const Value rest = ir::select(ir::lt(x, x.like(1e17f)), z * series, zero);
  const Value far = sum + ir::call(Routine::ScalarLog, x) - x.like(0.5) / x - rest;
  const Value at = ir::select(ir::eq(x, ten), sum + x.like(static_cast<float>(kAtTen)), far);
  const Value angle = (given - whole).to(ScalarType::Double) * kPi;
  const Value mirrored = at - (kPi / ir::call(Routine::VectorTan, angle)).to(given.type());
  const Value below = ir::select(ir::eq(given, whole),
                                 given.like(std::numeric_limits<double>::quiet_NaN()), mirrored);
  const Value pole = given.like(infinity).op(Op::CopySign, -given);
  return ir::select(ir::eq(given, zero), pole, ir::select(is_below, below, at));
}

/// −a log(a)
Value entropy(Args& a) {
  const Value x = a[0], zero = x.like(0);
  const Value positive = a.round(-x * a.round(ir::call(Routine::ScalarLog, x)));
  const Value other =
      ir::select(ir::eq(x, zero), zero, x.like(-std::numeric_limits<double>::infinity()));
  return ir::select(ir::isnan(x), x, ir::select(ir::lt(zero, x), positive, other));
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
      {"aten::lgamma", 1, Float, one_call<VectorLgamma>, Domain::Any, Bits,
       "logarithm of the gamma function's magnitude"},
      {"aten::digamma", 1, Float, digamma, Domain::Any, Bits,
       "its derivative; of fp64 ATen's call"},
      {"aten::special_entr", 1, Float, entropy, Domain::Any, Bits, "−a * log(a), 0 where a is 0"},
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
