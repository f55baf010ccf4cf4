// The backward of activations and losses whose elements stand alone, from ATen's Activation.cpp and
// BinaryOpsKernel.cpp.
#include <cmath>

#include "ops/pointwise.h"

namespace graft::ops {

namespace {

using ir::Routine;
using ir::Value;

/// As autograd calls them. Other layouts go through ATen's scalar loops, whose bits differ.
bool lie_alike(const Args& a) {
  return a.is_tensor(0) && a.is_tensor(1) && a.is_laid_out_as_result(0) &&
         a.is_laid_out_as_result(1);
}
constexpr const char* kApart = "a gradient that lies otherwise than what it goes through";
constexpr const char* kHalf = "half precision, of which each step is rounded";

/// Operands: the gradient, the sigmoid.
Value sigmoid_backward(Args& a) {
  if (!lie_alike(a)) return a.refuse(kApart);
  if (a.common == c10::ScalarType::Half && !a.is_fast()) return a.refuse(kHalf);
  return a[0] * (1 - a[1]) * a[1];
}

/// Operands: the gradient, the tanh.
Value tanh_backward(Args& a) {
  if (!lie_alike(a)) return a.refuse(kApart);
  if (a.common == c10::ScalarType::Half && !a.is_fast()) return a.refuse(kHalf);
  return a[0] * contracted(a, -a[1], a[1], a[1].like(1));
}

/// Operands: the gradient, x.
Value silu_backward(Args& a) {
  if (!lie_alike(a)) return a.refuse(kApart);
  const Value x = a[1], sigmoid = 1 / (1 + ir::call(Routine::VectorExp, -x));
  return a[0] * sigmoid * contracted(a, x, 1 - sigmoid, x.like(1));
}

Value gelu_backward(Args& a) {
  if (!lie_alike(a)) return a.refuse(kApart);
  if (a.common != c10::ScalarType::Float) return a.refuse("gelu's backward of another dtype");
  const Value x = a[1];
  const double beta = M_SQRT2 * M_2_SQRTPI * 0.5;
  if (a.text("approximate") == "tanh") {
    const Value square = x * x, cube = square * x;
    const Value inner = beta * contracted(a, x.like(0.044715), cube, x);
    const Value tanh = ir::call(Routine::VectorTanh, inner);
    const Value left = 0.5 * x, right = 1 + tanh;
    const Value tanh_slope = contracted(a, -tanh, tanh, x.like(1));
    const Value inner_slope = beta * contracted(a, x.like(3.0F * 0.044715F), square, x.like(1));
    return a[0] * contracted(a, right.like(0.5), right, left * tanh_slope * inner_slope);
  }
  if (a.is_one_dnn()) return a.refuse("oneDNN's gelu backward, which keeps more digits");
  const Value scaled = x * M_SQRT1_2;
  const Value cdf = 0.5 * (1 + vector_erf(a, scaled));
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

}  // namespace

std::vector<PointwiseRow> backward_rows() {
  using enum Promotion;
  using enum Exactness;
  return {
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
       {Body, 16},
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
  };
}

}  // namespace graft::ops
