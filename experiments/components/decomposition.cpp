#include "experiments/components/decomposition.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <graft/graft.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "experiments/frame/tables.h"
#include "lab/timer.h"
#include "lab/words.h"
#include "workloads/decoder/names.h"
#include "workloads/decoder/tiny.h"
#include "workloads/decoder/tiny_training.h"
#include "workloads/regions.h"
#include "workloads/training/steps.h"

namespace graft::experiments {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;
namespace decoder = workloads::decoder;

/// What is decomposed: inputs of each linear layer, and what it gives for them.
struct Layers {
  Tensors inputs, outputs;
};

/// Of a decoder that is trained on bytes of text, on text that it was not trained on.
Layers trained_layers(const DecompositionSizes& sizes, const Settings& settings, const Say& say) {
  decoder::TinySettings tiny;
  tiny.layers = sizes.layers, tiny.hidden = sizes.hidden, tiny.intermediate = sizes.intermediate;
  tiny.steps = sizes.training, tiny.seed = settings.seed, tiny.batch = 8;
  const decoder::TinyText text = decoder::tiny_text(tiny);
  const at::Generator generator = at::detail::createCPUGenerator(settings.seed);
  decoder::Decoder model = decoder::random_decoder(decoder::tiny_config(tiny), generator);
  say(0, "training the decoder");
  decoder::train(model, tiny, decoder::byte_ids(text.train), generator, nullptr);

  const at::NoGradGuard no_grad;
  const int64_t rows = sizes.tokens / tiny.context;
  const Tensor ids =
      decoder::byte_ids(text.held_out).slice(0, 0, rows * tiny.context).view({rows, tiny.context});
  Layers out;
  Tensor hidden = decoder::embed(model.config, model.outer, ids);
  for (const decoder::LayerWeights& layer : model.layers) {
    decoder::LayerWeights weights = layer;
    hidden = decoder::layer_forward(
        model.config, layer, hidden, [&](std::string_view name, const Tensor& x) {
          out.inputs.push_back(x.detach().clone());
          out.outputs.push_back(at::linear(x, decoder::weight_of(weights, name)).detach());
        });
  }
  return out;
}

/// V, U and the mask's logits of each layer, and AdamW's means.
struct State {
  Tensors parameters, first, second;
  Tensor steps = at::zeros({});

  State(const Layers& layers, int64_t parts, uint64_t seed) {
    const at::Generator generator = at::detail::createCPUGenerator(seed);
    const auto drawn = [&](int64_t rows, int64_t columns) {
      return at::randn({rows, columns}, generator, at::kFloat) /
             std::sqrt(static_cast<double>(rows));
    };
    for (size_t i = 0; i < layers.inputs.size(); ++i) {
      parameters.push_back(drawn(layers.inputs[i].size(1), parts));
      parameters.push_back(drawn(parts, layers.outputs[i].size(1)));
      parameters.push_back(at::full({parts}, 2.0));
    }
    for (const Tensor& p : parameters) {
      p.requires_grad_();
      first.push_back(at::zeros_like(p)), second.push_back(at::zeros_like(p));
    }
  }
};

/// How much of what the layers give is missing, on average, and a price for each open mask.
Tensor loss_of(const Tensors& parameters, const Tensors& inputs, const Tensors& outputs) {
  constexpr double kPrice = 0.02;
  Tensor missing, open;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor mask = at::sigmoid(parameters[3 * i + 2]);
    const Tensor made =
        workloads::component(inputs[i], parameters[3 * i], mask, parameters[3 * i + 1]);
    const Tensor share = at::mse_loss(made, outputs[i]) / outputs[i].var();
    missing = missing.defined() ? missing + share : share;
    open = open.defined() ? open + mask.mean() : mask.mean();
  }
  return (missing + kPrice * open) / static_cast<double>(inputs.size());
}

struct Trained {
  std::vector<double> losses, ms;
  double open = 0;  ///< the masks' mean
};

template <class Step>
Trained train(const Step& step, State state, const Layers& layers, int64_t steps, const Say& say) {
  Trained out;
  for (int64_t i = 0; i < steps; ++i) {
    Tensor loss;
    out.ms.push_back(lab::time_once_ms([&] {
      loss = step(state.parameters, state.first, state.second, state.steps, layers.inputs,
                  layers.outputs);
    }));
    out.losses.push_back(loss.item<double>());
    say(static_cast<double>(i) / static_cast<double>(steps),
        "loss " + lab::number(out.losses.back()));
  }
  const at::NoGradGuard no_grad;
  for (size_t i = 2; i < state.parameters.size(); i += 3)
    out.open += at::sigmoid(state.parameters[i]).mean().item<double>();
  out.open /= static_cast<double>(state.parameters.size()) / 3;
  return out;
}

double second_half(const std::vector<double>& ms) {
  return lab::median(std::span(ms).subspan(ms.size() / 2));
}

}  // namespace

lab::Section decomposition(const DecompositionSizes& sizes, const Settings& settings,
                           const Say& say) {
  const Layers layers = trained_layers(sizes, settings, say);
  const auto step = [](const Tensors& p, const Tensors& m, const Tensors& v, const Tensor& steps,
                       const Tensors& inputs, const Tensors& outputs) {
    const workloads::AdamW adamw{.rate = 3e-3};
    return workloads::training_step(
        [&] { return loss_of(p, inputs, outputs); },
        [&] {
          workloads::AdamW::step(p, m, v, steps, [&](const auto&... all) { adamw.update(all...); });
        });
  };
  Options options;
  options.name = "decomposition";
  options.cache = false;
  const auto compiled = graft::compile(step, options);
  const auto from = [&] { return State(layers, sizes.parts, settings.seed); };
  const Trained eager =
      train(step, from(), layers, sizes.steps,
            [&](double part, const auto& what) { say(0.3 + 0.35 * part, "eager, " + what); });
  const Trained graft =
      train(compiled, from(), layers, sizes.steps,
            [&](double part, const auto& what) { say(0.65 + 0.35 * part, "compiled, " + what); });

  double largest = 0;
  size_t equal = 0;
  for (size_t i = 0; i < eager.losses.size(); ++i) {
    largest = std::max(largest, std::abs(graft.losses[i] / eager.losses[i] - 1));
    equal += graft.losses[i] == eager.losses[i];
  }
  lab::Section out{"decomposition", "A decomposition that is trained",
                   "The " + std::to_string(layers.inputs.size()) +
                       " linear layers of a byte-level decoder, trained here for " +
                       std::to_string(sizes.training) + " steps, become ((x V) mask) U of " +
                       std::to_string(sizes.parts) +
                       " components: a training step is one program, AdamW included. Loss: the "
                       "share of the layers' variance that is missing, and 0.02 times the masks' "
                       "mean."};
  out.table = lab::Table(columns({"variant"}, {"first loss", "last loss", "masks open", "ms a step",
                                               "against eager", "all steps, s"}));
  const auto row = [&](const char* name, const Trained& trained) {
    double all = 0;
    for (const double ms : trained.ms) all += ms;
    out.table.row({name, lab::number(trained.losses.front(), 6),
                   lab::number(trained.losses.back(), 6), lab::percent_text(trained.open),
                   lab::number(second_half(trained.ms)),
                   &trained == &eager ? lab::Cell("")
                                      : times_cell(second_half(eager.ms) / second_half(trained.ms)),
                   lab::number(all / 1000)});
  };
  row("eager", eager), row("graft", graft);
  lab::Figure figure{"Loss by step", {}, {}, "step", ""};
  figure.log_y = true;
  for (const auto& [name, trained] : {std::pair("eager", &eager), {"graft", &graft}}) {
    lab::Figure::Series& series = figure.series.emplace_back(lab::Figure::Series{name});
    for (size_t i = 0; i < trained->losses.size(); ++i)
      series.points.emplace_back(static_cast<double>(i + 1), trained->losses[i]);
  }
  out.figures.push_back(std::move(figure));
  const Report report = compiled.report();
  out.notes.push_back("losses are equal in all bits in " + std::to_string(equal) + " of " +
                      std::to_string(eager.losses.size()) + " steps, and differ by at most " +
                      lab::number(largest, 2) + " of their value");
  out.notes.push_back(std::string("the compiler's verdict: ") + to_string(report.verdict) +
                      (report.reason.empty() ? "" : ", " + report.reason));
  return out;
}

}  // namespace graft::experiments
