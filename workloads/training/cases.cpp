// The set `training`: regions forward and backward, and whole steps.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "workloads/draw.h"
#include "workloads/fused_adamw.h"
#include "workloads/region_cases.h"
#include "workloads/regions.h"
#include "workloads/training/steps.h"

namespace graft::workloads {
namespace {

using at::Tensor;

/// f's result, and the gradients of its first `count` inputs in a direction.
template <class F>
Tensors forward_backward(F f, Tensors inputs, size_t count, const Tensor& direction) {
  const at::AutoGradMode grad(true);
  for (size_t k = 0; k < count; ++k) inputs[k] = inputs[k].detach().requires_grad_();
  const Tensor result = f(inputs);
  const Tensors leaves(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(count));
  Tensors all = torch::autograd::grad({result}, leaves, {direction});
  all.insert(all.begin(), result.detach());
  return all;
}

/// Such a region as a workload: f is what is compiled, as a part of somebody's model. With its
/// lower bound: inputs, result and gradients once each, and `flops` per element of the first input.
template <class F>
Instance region_of(F f, const Tensors& inputs, size_t count, const Tensor& direction,
                   double flops) {
  using Args = std::tuple<Tensors, Tensor>;
  const auto differentiated = [count](const auto& g) {
    return [g, count](const Tensors& given, const Tensor& along) {
      return forward_backward(g, given, count, along);
    };
  };
  const auto args = std::make_shared<Args>(inputs, direction);
  Instance made = detail::instance_with(
      f, args, [=](const auto& g) { return detail::call_of(differentiated(g), args); },
      [=](const Args& given) { return detail::outputs_of(differentiated(f), given); });
  made.bytes = static_cast<double>(made.input_bytes);
  made.bytes += static_cast<double>(direction.nbytes());
  for (size_t k = 0; k < count; ++k) made.bytes += static_cast<double>(inputs[k].nbytes());
  made.flops = flops * static_cast<double>(inputs[0].numel());
  return made;
}

Instance rope_training(const Options& o) {
  Draw draw(o);
  const int64_t s = o.integer("sequence"), d = o.integer("width");
  const Tensor q = draw.normal({o.integer("batch"), o.integer("heads"), s, d});
  return region_of(
      [](const Tensors& t) {
        const auto halves = t[0].chunk(2, -1);
        return t[0] * t[1] + at::cat({-halves[1], halves[0]}, -1) * t[2];
      },
      {q, draw.normal({s, d}), draw.normal({s, d})}, 1, draw.normal(q.sizes()), 6);
}

Instance rmsnorm_training(const Options& o) {
  Draw draw(o);
  const int64_t rows = o.integer("rows"), width = o.integer("width");
  return region_of([](const Tensors& t) { return std::get<1>(rmsnorm_residual(t[0], t[1], t[2])); },
                   {draw.normal({rows, width}), draw.normal({rows, width}), draw.normal({width})},
                   3, draw.normal({rows, width}), 13);
}

Instance swiglu_training(const Options& o) {
  Draw draw(o);
  const int64_t rows = o.integer("rows"), width = o.integer("width");
  return region_of([](const Tensors& t) { return swiglu(t[0], t[1]); },
                   {draw.normal({rows, width}), draw.normal({rows, width})}, 2,
                   draw.normal({rows, width}), kFunction + 9);
}

Instance softmax_training(const Options& o) {
  Draw draw(o);
  const int64_t heads = o.integer("heads"), s = o.integer("sequence");
  return region_of([](const Tensors& t) { return softmax_mask(t[0], t[1]); },
                   {draw.normal({heads, s, s}), draw.normal({s, s})}, 1, draw.normal({heads, s, s}),
                   kFunction + 8);
}

Instance layernorm_gelu_training(const Options& o) {
  Draw draw(o);
  const int64_t rows = o.integer("rows"), width = o.integer("width");
  return region_of(
      [](const Tensors& t) {
        return at::gelu(at::layer_norm(t[0], {t[0].size(1)}, t[1], t[2]), "tanh");
      },
      {draw.normal({rows, width}), draw.normal({width}), draw.normal({width})}, 3,
      draw.normal({rows, width}), 2 * kFunction + 25);
}

Instance cross_entropy_training(const Options& o) {
  Draw draw(o);
  const int64_t rows = o.integer("rows"), classes = o.integer("classes");
  return region_of([](const Tensors& t) { return at::cross_entropy_loss(t[0], t[1]); },
                   {draw.normal({rows, classes}), draw.integers({rows}, classes)}, 1, at::ones({}),
                   2 * kFunction + 4);
}

/// GPT-2's, for axes that it shares with `gpt2_step_f32`.
Tensors gpt_parameters(const Options& o, Draw& draw) {
  const int64_t width = o.integer("width");
  Tensors parameters{draw.normal({o.integer("vocabulary"), width}),
                     draw.normal({o.integer("context"), width})};
  auto norm = [&] {
    parameters.push_back(at::ones({width}));
    parameters.push_back(at::zeros({width}));
  };
  auto linear = [&](int64_t out, int64_t in) {
    parameters.push_back(draw.normal({out, in}));
    parameters.push_back(at::zeros({out}));
  };
  for (int64_t layer = 0; layer < o.integer("layers"); ++layer) {
    norm(), linear(3 * width, width), linear(width, width);
    norm(), linear(4 * width, width), linear(width, 4 * width);
  }
  norm();
  return parameters;
}

double elements_of(const Tensors& all) {
  double sum = 0;
  for (const Tensor& t : all) sum += static_cast<double>(t.numel());
  return sum;
}

Instance adamw_list(const Options& o) {
  Draw draw(o);
  const Tensors parameters = gpt_parameters(o, draw);
  Tensors gradients, first, second;
  for (const Tensor& p : parameters) {
    gradients.push_back(draw.normal(p.sizes()));
    first.push_back(draw.normal(p.sizes()));
    second.push_back(draw.uniform(p.sizes()));
  }
  Instance made = updating_instance_of(
      [](const Tensors& p, const Tensors& g, const Tensors& m, const Tensors& v,
         const Tensor& steps) { AdamW().update(p, g, m, v, steps); },
      parameters, gradients, first, second, at::zeros({}));
  made.bytes = 7 * 4 * elements_of(parameters);
  made.flops = 14 * elements_of(parameters);
  const auto outputs = [gradients](const Tensors& p, const Tensors& m, const Tensors& v) {
    Tensors all = p;
    for (const Tensors& list : {gradients, m, v}) all.insert(all.end(), list.begin(), list.end());
    all.push_back(at::ones({}));
    return all;
  };
  made.others.emplace_back(
      "aten_fused", fused_adamw(parameters, gradients, first, second, AdamW().beta2, outputs));
  return made;
}

Instance gpt_step(const Options& o) {
  Draw draw(o);
  const int64_t width = o.integer("width"), context = o.integer("context"),
                vocabulary = o.integer("vocabulary"), batch = o.integer("batch");
  Tensors parameters = gpt_parameters(o, draw);
  Tensors first, second;
  for (Tensor& p : parameters) {
    if (p.dim() == 2) p.mul_(0.02);
    p.requires_grad_();
    first.push_back(at::zeros_like(p.detach()));
    second.push_back(at::zeros_like(p.detach()));
  }
  const Gpt model{o.integer("heads")};
  const double tokens_seen = static_cast<double>(batch * context);
  Instance made = updating_instance_of(
      [model](const Tensors& p, const Tensors& m, const Tensors& v, const Tensor& steps,
              const Tensor& tokens, const Tensor& next) {
        const at::AutoGradMode grad(true);
        const Tensor loss = model.loss(p, tokens, next);
        loss.backward();
        AdamW().step(p, m, v, steps);
        return loss.detach();
      },
      parameters, first, second, at::zeros({}), draw.integers({batch, context}, vocabulary),
      draw.integers({batch, context}, vocabulary));
  // Parameters and AdamW's means are read and written; each parameter of a matmul takes a
  // multiply-add forward and two backward per token, and so does each pair of positions.
  made.bytes = 6 * 4 * elements_of(parameters);
  made.flops =
      6 * tokens_seen *
      (elements_of(parameters) + 2. * static_cast<double>(o.integer("layers") * context * width));
  made.tokens = tokens_seen;
  return made;
}

/// Gradients are sums that are added in another order.
constexpr double kSums = 2e-5;
/// AdamW divides a gradient by its size: the sign of what rounding left is a step.
constexpr double kSteps = 5e-3;

}  // namespace

std::vector<Workload> training_cases() {
  const auto matrix = [](const char* rows, const char* width) -> std::vector<Axis> {
    return {{"rows", rows, "37", "rows"}, {"width", width, "101", "columns"}};
  };
  return {
      {"rope_train_f32",
       "rotary embedding, forward and backward",
       {{"batch", "4", "2", "samples"},
        {"heads", "16", "3", "heads"},
        {"sequence", "1024", "37", "positions"},
        {"width", "64", "22", "columns of a head"}},
       rope_training,
       kSums,
       "training"},
      {"rmsnorm_train_f32", "residual and RMSNorm, forward and backward", matrix("4096", "2048"),
       rmsnorm_training, kSums, "training"},
      {"swiglu_train_f32", "silu(gate) * up, forward and backward", matrix("4096", "2816"),
       swiglu_training, kSums, "training"},
      {"softmax_train_f32",
       "attention's softmax with a mask, forward and backward",
       {{"heads", "16", "3", "heads"}, {"sequence", "1024", "37", "positions"}},
       softmax_training,
       kSums,
       "training"},
      {"layernorm_gelu_train_f32", "layer norm and GELU, forward and backward",
       matrix("4096", "3072"), layernorm_gelu_training, kSums, "training"},
      {"cross_entropy_f32",
       "cross-entropy over a large vocabulary, forward and backward",
       {{"rows", "4096", "37", "tokens"}, {"classes", "32000", "101", "the vocabulary"}},
       cross_entropy_training,
       kSums,
       "training"},
      {"gpt2_step_f32",
       "a training step of GPT-2's layers: forward, backward, AdamW",
       {{"layers", "4", "1", "layers"},
        {"batch", "4", "2", "sequences"},
        {"context", "256", "9", "tokens of a sequence"},
        {"width", "768", "24", "columns"},
        {"heads", "12", "3", "heads"},
        {"vocabulary", "10000", "53", "tokens known"}},
       gpt_step,
       kSteps,
       "training"},
      {"adamw_gpt2_f32",
       "AdamW over GPT-2 small's parameters",
       {{"layers", "12", "1", "layers"},
        {"context", "1024", "9", "positions"},
        {"width", "768", "24", "columns"},
        {"vocabulary", "50257", "53", "tokens known"}},
       adamw_list,
       kSums,
       "training"},
  };
}

}  // namespace graft::workloads
