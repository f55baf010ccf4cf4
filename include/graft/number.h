// A number that may be another one at each call of a compiled function, without another plan.
//
//     auto step = graft::compile([](std::vector<at::Tensor> p, std::vector<at::Tensor> g,
//                                   graft::Number rate) {
//       for (size_t i = 0; i < p.size(); ++i) p[i].add_(g[i], -rate);
//     });
//     for (int n = 0; n < steps; ++n) step(parameters, gradients, graft::Number(schedule(n)));
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include "graft/detail/flatten.h"
#include "graft/export.h"

namespace graft {

/// Learning rates, step counts, scales of losses: a double in a 0-dim tensor. It goes wherever ATen
/// takes an at::Scalar. A recorded run remembers what was computed from it (`-rate / (1 - pow(beta,
/// count))`), and plans compute that anew at each call; the arithmetic is that of 0-dim fp64
/// tensors, inside compiled functions and outside. A double in its place is a constant of the plan.
///
/// What the function decides by its value (if, value(), an operator that wants a double) is a graph
/// break, as reading a tensor is. ATen cannot negate one inside of sub(x, y, alpha), nor take its
/// logarithm: graft::Error says so, in the first call; write add(x, y, -alpha).
///
/// Copies are cheap. Thread-safety: as a double's.
class GRAFT_API Number {
 public:
  Number(double value = 0);  // NOLINT: numbers mix with doubles
  /// Of a 0-dim fp64 tensor of the CPU, whose value it takes now. Throws graft::Error for others.
  static Number of(const at::Tensor& value);

  /// In a recorded run the Scalar stands for the number itself.
  operator c10::Scalar() const;  // NOLINT: it goes where numbers go
  /// The value as a tensor, which nobody may change.
  const at::Tensor& tensor() const { return value_; }
  double value() const;

  Number operator-() const;
  friend GRAFT_API Number operator+(const Number& a, const Number& b);
  friend GRAFT_API Number operator+(const Number& a, double b);
  friend GRAFT_API Number operator+(double a, const Number& b);
  friend GRAFT_API Number operator-(const Number& a, const Number& b);
  friend GRAFT_API Number operator-(const Number& a, double b);
  friend GRAFT_API Number operator-(double a, const Number& b);
  friend GRAFT_API Number operator*(const Number& a, const Number& b);
  friend GRAFT_API Number operator*(const Number& a, double b);
  friend GRAFT_API Number operator*(double a, const Number& b);
  friend GRAFT_API Number operator/(const Number& a, const Number& b);
  friend GRAFT_API Number operator/(const Number& a, double b);
  friend GRAFT_API Number operator/(double a, const Number& b);
  friend GRAFT_API Number pow(const Number& base, const Number& exponent);
  friend GRAFT_API Number pow(const Number& base, double exponent);
  friend GRAFT_API Number pow(double base, const Number& exponent);
  friend GRAFT_API Number sqrt(const Number& a);
  friend GRAFT_API Number exp(const Number& a);
  friend GRAFT_API Number log(const Number& a);
  friend GRAFT_API Number cos(const Number& a);
  friend GRAFT_API Number min(const Number& a, const Number& b);
  friend GRAFT_API Number max(const Number& a, const Number& b);

 private:
  friend struct detail::Flatten<Number>;
  explicit Number(at::Tensor value) : value_(std::move(value)) {}
  at::Tensor value_;
};

/// An argument or a result like a tensor.
template <>
struct detail::Flatten<Number> {
  static constexpr bool known = true;
  static constexpr bool owns = true;
  template <class X, class Leaf>
  static void visit(X& x, Leaf&& leaf) {
    leaf.word(kIsNumber);  // a tensor in its place is used otherwise
    leaf.tensor(x.value_);
  }

 private:
  static constexpr uint64_t kIsNumber = 0x6e756d626572;
};

}  // namespace graft
