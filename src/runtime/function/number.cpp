#include "graft/number.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/log.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/rsub.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sqrt.h>
#include <c10/util/StringUtil.h>

#include "graft/options.h"
#include "record/symbol.h"

namespace graft {

Number::Number(double value) : value_(at::scalar_tensor(value, at::kDouble)) {}

Number Number::of(const at::Tensor& value) {
  if (!value.defined() || value.dim() != 0 || value.scalar_type() != at::kDouble ||
      !value.device().is_cpu())
    throw Error(c10::str("graft::Number::of: a 0-dim fp64 tensor of the CPU was expected, ",
                         value.defined() ? c10::str("one of ", value.dim(), " dimensions, dtype ",
                                                    value.scalar_type(), ", on ", value.device())
                                         : std::string("an undefined one"),
                         " came; use value.detach().to(at::kCPU, at::kDouble).reshape({})"));
  return Number(value.detach().clone());
}

Number::operator c10::Scalar() const {
  return record::scalar_of(value_);
}

double Number::value() const {
  return value_.item<double>();
}

Number Number::operator-() const {
  return Number(value_.neg());
}

Number operator+(const Number& a, const Number& b) {
  return Number(a.value_ + b.value_);
}
Number operator+(const Number& a, double b) {
  return Number(a.value_ + b);
}
Number operator+(double a, const Number& b) {
  return Number(b.value_ + a);
}
Number operator-(const Number& a, const Number& b) {
  return Number(a.value_ - b.value_);
}
Number operator-(const Number& a, double b) {
  return Number(a.value_ - b);
}
Number operator-(double a, const Number& b) {
  return Number(at::rsub(b.value_, a));
}
Number operator*(const Number& a, const Number& b) {
  return Number(a.value_ * b.value_);
}
Number operator*(const Number& a, double b) {
  return Number(a.value_ * b);
}
Number operator*(double a, const Number& b) {
  return Number(b.value_ * a);
}
Number operator/(const Number& a, const Number& b) {
  return Number(a.value_ / b.value_);
}
Number operator/(const Number& a, double b) {
  return Number(a.value_ / b);
}
Number operator/(double a, const Number& b) {
  return Number(at::scalar_tensor(a, at::kDouble) / b.value_);
}

Number pow(const Number& base, const Number& exponent) {
  return Number(at::pow(base.value_, exponent.value_));
}
Number pow(const Number& base, double exponent) {
  return Number(at::pow(base.value_, exponent));
}
Number pow(double base, const Number& exponent) {
  return Number(at::pow(base, exponent.value_));
}
Number sqrt(const Number& a) {
  return Number(a.value_.sqrt());
}
Number exp(const Number& a) {
  return Number(a.value_.exp());
}
Number log(const Number& a) {
  return Number(a.value_.log());
}
Number cos(const Number& a) {
  return Number(a.value_.cos());
}
Number min(const Number& a, const Number& b) {
  return Number(at::minimum(a.value_, b.value_));
}
Number max(const Number& a, const Number& b) {
  return Number(at::maximum(a.value_, b.value_));
}

}  // namespace graft
