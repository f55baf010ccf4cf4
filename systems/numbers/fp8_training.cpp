#include "graft/systems/fp8_training.h"

#include <ATen/core/ivalue.h>
#include <ATen/ops/mm.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <c10/util/accumulate.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>
#include <vector>

namespace graft::systems {

struct Fp8Linear::State {
  explicit State(const Fp8Options& given)
      : options(given),
        input(number_format("fp8_e4m3"), given.history, given.margin),
        weight(number_format("fp8_e4m3"), given.history, given.margin),
        gradient(number_format("fp8_e5m2"), given.history, given.margin) {}

  Quantized quantize_gradient(const at::Tensor& dy) {
    return gradient.quantize(dy, {.rounding = options.gradient_rounding,
                                  .seed = options.seed + static_cast<uint64_t>(backward_passes++)});
  }

  Fp8Options options;
  DelayedScaling input, weight, gradient;
  int64_t backward_passes = 0;
};

using at::Tensor;

namespace fp8 {
namespace {

using State = Fp8Linear::State;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// As autograd's nodes can keep it.
struct KeptState : torch::CustomClassHolder {
  explicit KeptState(std::shared_ptr<State> given) : state(std::move(given)) {}
  std::shared_ptr<State> state;
};

/// What a node keeps of x or W: codes, and a scale.
Tensor widened(const Tensor& codes, double scale) {
  return dequantize({.format = number_format("fp8_e4m3"),
                     .sizes = codes.sizes().vec(),
                     .codes = codes,
                     .tensor_scale = static_cast<float>(scale)});
}

/// As rows of its last dimension; counted, since reshape() cannot tell -1 where that is 0.
Tensor in_rows(const Tensor& x) {
  const int64_t count = c10::multiply_integers(x.sizes().slice(0, x.sizes().size() - 1));
  return x.reshape({count, x.size(-1)});
}

struct Fp8Product : torch::autograd::Function<Fp8Product> {
  static Tensor forward(AutogradContext* node, const Tensor& x, const Tensor& weight,
                        const std::shared_ptr<State>& state) {
    const Quantized input = state->input.quantize(in_rows(x));
    const Quantized matrix = state->weight.quantize(weight);
    node->save_for_backward({input.codes, matrix.codes});
    node->saved_data["input_scale"] = static_cast<double>(input.tensor_scale);
    node->saved_data["weight_scale"] = static_cast<double>(matrix.tensor_scale);
    node->saved_data["sizes"] = x.sizes().vec();
    node->saved_data["types"] = std::vector<int64_t>{static_cast<int64_t>(x.scalar_type()),
                                                     static_cast<int64_t>(weight.scalar_type())};
    node->saved_data["state"] = c10::IValue::make_capsule(c10::make_intrusive<KeptState>(state));
    std::vector<int64_t> sizes = x.sizes().vec();
    sizes.back() = weight.size(0);
    return matmul(input, matrix).reshape(sizes);
  }

  static variable_list backward(AutogradContext* node, const variable_list& gradients) {
    TORCH_CHECK_NOT_IMPLEMENTED(!c10::GradMode::is_enabled(),
                                "Fp8Linear: came a backward with create_graph; it can be "
                                "differentiated once only");
    if (!gradients[0].defined()) return {Tensor(), Tensor(), Tensor()};
    const variable_list saved = node->get_saved_variables();
    const auto kept =
        c10::static_intrusive_pointer_cast<KeptState>(node->saved_data["state"].toCapsule());
    const std::vector<int64_t> types = node->saved_data["types"].toIntVector();
    const Tensor dy = dequantize(kept->state->quantize_gradient(in_rows(gradients[0])));
    variable_list out(3);
    if (node->needs_input_grad(0))
      out[0] = at::mm(dy, widened(saved[1], node->saved_data["weight_scale"].toDouble()))
                   .reshape(node->saved_data["sizes"].toIntVector())
                   .to(static_cast<at::ScalarType>(types[0]));
    if (node->needs_input_grad(1))
      out[1] = at::mm(dy.t(), widened(saved[0], node->saved_data["input_scale"].toDouble()))
                   .to(static_cast<at::ScalarType>(types[1]));
    return out;
  }
};

}  // namespace
}  // namespace fp8

Fp8Linear::Fp8Linear(const Fp8Options& options) : state_(std::make_shared<State>(options)) {}

Tensor Fp8Linear::operator()(const Tensor& x, const Tensor& weight, const Tensor& bias) const {
  TORCH_CHECK_VALUE(x.defined() && weight.defined() && x.dim() > 0 && weight.dim() == 2 &&
                        x.size(-1) == weight.size(1),
                    "Fp8Linear: came x of sizes ", x.defined() ? x.sizes() : at::IntArrayRef(),
                    " and a weight of sizes ",
                    weight.defined() ? weight.sizes() : at::IntArrayRef(),
                    ", expected [..., in] and [out, in].");
  TORCH_CHECK_VALUE(!bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.size(0)),
                    "Fp8Linear: came a bias of sizes ",
                    bias.defined() ? bias.sizes() : at::IntArrayRef(), ", expected [",
                    weight.size(0), "].");
  const Tensor product = fp8::Fp8Product::apply(x, weight, state_);
  return bias.defined() ? product.add(bias) : product;
}

float Fp8Linear::input_scale() const {
  return state_->input.next_scale();
}
float Fp8Linear::weight_scale() const {
  return state_->weight.next_scale();
}
float Fp8Linear::gradient_scale() const {
  return state_->gradient.next_scale();
}

}  // namespace graft::systems
