// The set `training`: whole steps and an optimizer's. Regions are in cases.cpp.
#include <ATen/ATen.h>

#include <cmath>

#include "workloads/draw.h"
#include "workloads/fused_adamw.h"
#include "workloads/region_cases.h"
#include "workloads/regions.h"
#include "workloads/training/steps.h"

namespace graft::workloads {
namespace {

using at::Tensor;

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

/// FLOPs per parameter of a matmul and row: a multiply-add forward and two backward.
constexpr double kMultiplyAdds = 6;

/// The step that trains `parameters` by AdamW to lower loss(parameters, data...). Its bound: they
/// and AdamW's two means are read and written.
template <class Loss>
Instance adamw_training(const Loss& loss, const Tensors& parameters, const Tensor& inputs,
                        const Tensor& targets) {
  Tensors first, second;
  for (const Tensor& p : parameters) {
    first.push_back(at::zeros_like(p));
    second.push_back(at::zeros_like(p));
    p.requires_grad_();
  }
  Instance made = updating_instance_of(
      [loss](const Tensors& p, const Tensors& m, const Tensors& v, const Tensor& steps,
             const Tensor& x, const Tensor& y) {
        return training_step([&] { return loss(p, x, y); }, [&] { AdamW().step(p, m, v, steps); });
      },
      parameters, first, second, at::zeros({}), inputs, targets);
  made.bytes = 6 * 4 * elements_of(parameters);
  return made;
}

Instance perceptron_step(const Options& o) {
  Draw draw(o);
  const int64_t rows = o.integer("rows"), inputs = o.integer("inputs"), width = o.integer("width"),
                classes = o.integer("classes");
  Tensors parameters;
  double weights = 0;
  for (const auto& [out, in] : {std::pair(width, inputs), {width, width}, {classes, width}}) {
    parameters.push_back(draw.normal({out, in}).mul_(std::sqrt(2 / static_cast<double>(in))));
    parameters.push_back(at::zeros({out}));
    weights += static_cast<double>(out * in);
  }
  Instance made = adamw_training(perceptron_loss, parameters, draw.normal({rows, inputs}),
                                 draw.integers({rows}, classes));
  made.samples = static_cast<double>(rows);
  made.flops = kMultiplyAdds * made.samples * weights;
  return made;
}

/// tools/peers/training.py's too.
constexpr double kComponentRate = 0.1;

Instance component_step(const Options& o) {
  Draw draw(o);
  const int64_t batch = o.integer("batch"), s = o.integer("sequence"), width = o.integer("width"),
                hidden = o.integer("hidden"), parts = o.integer("parts"),
                heads = o.integer("heads");
  Tensors parameters, masks;
  const auto component = [&](int64_t out, int64_t in) {
    for (const auto& [rows, columns] : {std::pair(in, parts), {parts, out}})
      parameters.push_back(
          draw.normal({rows, columns}).mul_(1 / std::sqrt(static_cast<double>(rows))));
    masks.push_back(draw.uniform({batch, s, parts}));
  };
  for (int64_t layer = 0; layer < o.integer("layers"); ++layer) {
    for (int norm = 0; norm < 2; ++norm) parameters.push_back(at::ones({width}));
    for (int of_attention = 0; of_attention < 4; ++of_attention) component(width, width);
    component(hidden, width), component(hidden, width), component(width, hidden);
  }
  for (const Tensor& p : parameters) p.requires_grad_();
  const auto [cos, sin] = rope_tables(s, width / heads, at::kFloat);
  const ComponentLlama model{heads};
  Instance made = updating_instance_of(
      [model](const Tensors& p, const Tensor& x, const Tensors& m, const Tensor& target,
              const Tensor& c, const Tensor& n) {
        return training_step([&] { return model.loss(p, x, m, target, c, n); },
                             [&] { descend(p, kComponentRate); });
      },
      parameters, draw.normal({batch, s, width}), masks, draw.normal({batch, s, width}), cos, sin);
  made.tokens = static_cast<double>(batch * s);
  made.bytes = 4 * (2 * elements_of(parameters) + elements_of(masks));
  made.flops = kMultiplyAdds * made.tokens * elements_of(parameters);
  return made;
}

Instance gpt_step(const Options& o) {
  Draw draw(o);
  const int64_t width = o.integer("width"), context = o.integer("context"),
                vocabulary = o.integer("vocabulary"), batch = o.integer("batch");
  Tensors parameters = gpt_parameters(o, draw);
  for (Tensor& p : parameters)
    if (p.dim() == 2) p.mul_(0.02);
  const Gpt model{o.integer("heads")};
  const double tokens_seen = static_cast<double>(batch * context);
  Instance made =
      adamw_training([model](const Tensors& p, const Tensor& tokens,
                             const Tensor& next) { return model.loss(p, tokens, next); },
                     parameters, draw.integers({batch, context}, vocabulary),
                     draw.integers({batch, context}, vocabulary));
  // As each parameter of a matmul does, so does each pair of positions.
  made.flops =
      kMultiplyAdds * tokens_seen *
      (elements_of(parameters) + 2. * static_cast<double>(o.integer("layers") * context * width));
  made.tokens = tokens_seen;
  return made;
}

/// AdamW divides a gradient by its size: the sign of what rounding left is a step.
constexpr double kSteps = 5e-3;

}  // namespace

std::vector<Workload> step_cases() {
  return {
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
      {"mlp_bf16_autocast",
       "a training step of a perceptron: forward under bf16 autocast, backward, AdamW in fp32",
       {{"rows", "512", "37", "samples"},
        {"inputs", "784", "20", "numbers of a sample"},
        {"width", "1024", "24", "columns"},
        {"classes", "10", "5", "classes"}},
       perceptron_step,
       kSteps,
       "training"},
      {"spd_train_f32",
       "a training step of Llama's layers with masked components for linear layers, and SGD",
       {{"layers", "4", "2", "layers"},
        {"batch", "2", "3", "sequences"},
        {"sequence", "128", "9", "tokens of a sequence"},
        {"width", "512", "24", "columns"},
        {"hidden", "1376", "40", "columns between gate and down"},
        {"heads", "8", "3", "heads"},
        {"parts", "1200", "51", "components"}},
       component_step,
       kSums,
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
