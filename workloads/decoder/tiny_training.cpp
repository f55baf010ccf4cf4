#include "workloads/decoder/tiny_training.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <stdexcept>

#include "workloads/decoder/names.h"

namespace graft::workloads::decoder {
namespace {

using at::Tensor;

// AdamW's numbers, and how the learning rate moves.
constexpr double kBeta1 = 0.9, kBeta2 = 0.95, kEpsilon = 1e-8, kWeightDecay = 0.1, kMaxNorm = 1;
constexpr double kWarmUp = 0.05, kLastRate = 0.1;  // parts of the steps, and of the highest rate

class AdamW {
 public:
  explicit AdamW(const std::vector<std::pair<std::string, Tensor>>& parameters) {
    for (const auto& [name, parameter] : parameters) {
      states_.push_back({parameter, at::zeros_like(parameter), at::zeros_like(parameter)});
    }
  }
  // One step along the gradients, shortened together to kMaxNorm, which are then dropped.
  void step(double rate) {
    const at::NoGradGuard no_grad;
    ++steps_;
    const double correct1 = 1 - std::pow(kBeta1, steps_), correct2 = 1 - std::pow(kBeta2, steps_);
    std::vector<Tensor> norms;
    for (const State& s : states_) norms.push_back(at::linalg_vector_norm(s.parameter.grad()));
    const double norm = at::linalg_vector_norm(at::stack(norms)).item<double>();
    const double shorten = norm > kMaxNorm ? kMaxNorm / norm : 1;
    for (State& s : states_) {
      const Tensor gradient = s.parameter.grad() * shorten;
      if (s.parameter.dim() > 1) s.parameter.mul_(1 - rate * kWeightDecay);
      s.mean.mul_(kBeta1).add_(gradient, 1 - kBeta1);
      s.square.mul_(kBeta2).addcmul_(gradient, gradient, 1 - kBeta2);
      const Tensor size = (s.square / correct2).sqrt_().add_(kEpsilon);
      s.parameter.addcdiv_(s.mean, size, -rate / correct1);
      s.parameter.mutable_grad() = Tensor();
    }
  }

 private:
  struct State {
    Tensor parameter, mean, square;
  };
  std::vector<State> states_;
  double steps_ = 0;
};

double learning_rate(const TinySettings& s, int64_t step) {
  const double at = static_cast<double>(step) / static_cast<double>(s.steps);
  const double warm = std::ceil(kWarmUp * static_cast<double>(s.steps));
  const double rise = std::min(1.0, static_cast<double>(step + 1) / warm);
  const double fall = kLastRate + (1 - kLastRate) * 0.5 * (1 + std::cos(std::numbers::pi * at));
  return s.learning_rate * rise * fall;
}

}  // namespace

std::vector<std::pair<std::string, Tensor>> named(const Decoder& d) {
  std::vector<std::pair<std::string, Tensor>> out = {
      {"model.embed_tokens.weight", d.outer.embedding},
      {"model.norm.weight", d.outer.norm},
      {"lm_head.weight", d.outer.head}};
  for (size_t i = 0; i < d.layers.size(); ++i) {
    for (const LinearName& name : layer_linears(d.config, static_cast<int64_t>(i))) {
      out.emplace_back(name.tensor, weight_of(d.layers[i], name.linear));
    }
    const std::string at = "model.layers." + std::to_string(i) + '.';
    out.emplace_back(at + "input_layernorm.weight", d.layers[i].input_norm);
    out.emplace_back(at + "post_attention_layernorm.weight", d.layers[i].post_norm);
  }
  return out;
}

Decoder random_decoder(const Config& c, const at::Generator& generator) {
  const auto matrix = [&](int64_t rows, int64_t columns, double scale) {
    return at::randn({rows, columns}, generator, at::kFloat) *
           (scale / std::sqrt(static_cast<double>(columns)));
  };
  Decoder out;
  out.config = c;
  out.outer.embedding = matrix(c.vocabulary, c.hidden, 1);
  out.outer.norm = at::ones({c.hidden});
  out.outer.head = matrix(c.vocabulary, c.hidden, 1);
  // Each layer adds to the hidden states twice; together they keep their size.
  const double added = 1 / std::sqrt(2.0 * static_cast<double>(c.layers));
  for (int64_t i = 0; i < c.layers; ++i) {
    LayerWeights layer;
    for (const LinearName& name : layer_linears(c, i)) {
      const bool adds = name.linear == "o_proj" || name.linear == "down_proj";
      weight_of(layer, name.linear) = matrix(name.rows, name.columns, adds ? added : 1);
    }
    layer.input_norm = at::ones({c.hidden});
    layer.post_norm = at::ones({c.hidden});
    out.layers.push_back(std::move(layer));
  }
  return out;
}

int64_t report_count(const TinySettings& settings) {
  return std::min<int64_t>(10, settings.steps);
}

std::vector<double> train(Decoder& decoder, const TinySettings& s, const Tensor& text,
                          const at::Generator& generator, lab::Progress* progress) {
  const at::AutoGradMode with_grad(true);
  const auto parameters = named(decoder);
  for (const auto& [name, parameter] : parameters) parameter.requires_grad_();
  AdamW optimizer(parameters);
  const Tensor places = at::arange(s.context + 1, at::kLong);
  std::vector<double> losses;
  const int64_t reports = report_count(s);
  for (int64_t step = 0; step < s.steps; ++step) {
    if (progress != nullptr &&
        (step == 0 || step * reports / s.steps != (step - 1) * reports / s.steps)) {
      progress->begin("training a small decoder, step " + std::to_string(step) + " of " +
                      std::to_string(s.steps));
    }
    const Tensor starts = at::randint(text.size(0) - s.context, {s.batch, 1}, generator, at::kLong);
    const Tensor windows = text.take(starts + places);
    const Tensor logits = decoder.forward(windows.slice(1, 0, s.context));
    const Tensor loss = at::cross_entropy_loss(logits.reshape({-1, decoder.config.vocabulary}),
                                               windows.slice(1, 1).reshape({-1}));
    loss.backward();
    optimizer.step(learning_rate(s, step));
    losses.push_back(loss.item<double>());
    if (!std::isfinite(losses.back())) {
      throw std::runtime_error("train_tiny: the loss of step " + std::to_string(step) +
                               " is not finite; lower learning_rate, " +
                               std::to_string(s.learning_rate));
    }
    if (progress != nullptr) {
      const int64_t part = step * reports % s.steps;
      char what[32];
      std::snprintf(what, sizeof what, "loss %.3f", losses.back());
      progress->at(static_cast<double>(part) / static_cast<double>(s.steps), what);
    }
  }
  for (const auto& [name, parameter] : parameters) parameter.requires_grad_(false);
  return losses;
}

}  // namespace graft::workloads::decoder
