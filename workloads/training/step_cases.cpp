// The set `training`: whole steps and an optimizer's. Regions are in cases.cpp.
#include <ATen/ATen.h>

#include <cmath>

#include "workloads/draw.h"
#include "workloads/fused_adamw.h"
#include "workloads/region_cases.h"
#include "workloads/regions.h"
#include "workloads/training/parameters.h"
#include "workloads/training/steps.h"

namespace graft::workloads {
namespace {

using at::Tensor;

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
                heads = o.integer("heads");
  const auto [parameters, masks] = component_parameters(o, draw);
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
  const Tensors parameters = gpt_parameters(o, draw, kInitial);
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
