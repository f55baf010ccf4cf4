#include "quantizer/experiment/decoder.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "lab/accuracy/tokens.h"
#include "workloads/decoder/names.h"
#include "workloads/decoder/tiny.h"

namespace graft::cli {
namespace {

using at::Tensor;
namespace decoder = workloads::decoder;

decoder::TinySettings tiny_settings(const GptqChoice& choice) {
  decoder::TinySettings out;
  out.seed = choice.seed;
  out.intermediate = 384;  // a multiple of the group
  if (choice.small) {
    out.hidden = 32, out.heads = 2, out.kv_heads = 1, out.intermediate = 64;
    out.context = 32, out.batch = 4, out.steps = 20;
  }
  out.layers = choice.layers;
  return out;
}

/// `count` windows [count, length], evenly over the text; fewer where the text is short.
Tensor windows(const std::string& text, int64_t length, int64_t count) {
  const Tensor ids = decoder::byte_ids(text);
  count = std::max<int64_t>(1, std::min(count, ids.size(0) / length));
  std::vector<Tensor> rows;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t start = i * (ids.size(0) - length) / count;
    rows.push_back(ids.slice(0, start, start + length));
  }
  return at::stack(rows);
}

std::string_view kind_of(std::string_view linear) {
  if (linear == "q_proj" || linear == "o_proj") return "q/o";
  if (linear == "k_proj" || linear == "v_proj") return "k/v";
  return linear == "down_proj" ? "down" : "gate/up";
}

/// Layer by layer: each is calibrated on what the quantised layers before it make of the text.
decoder::Decoder quantise_decoder(const decoder::Decoder& original, const Tensor& ids,
                                  const QuantiseGroup& quantise) {
  decoder::Decoder model = original;
  Tensor hidden = decoder::embed(model.config, model.outer, ids);
  for (size_t i = 0; i < model.layers.size(); ++i) {
    decoder::LayerWeights& layer = model.layers[i];
    std::map<std::string, Tensor, std::less<>> seen;
    decoder::layer_forward(
        model.config, layer, hidden,
        [&](std::string_view linear, const Tensor& inputs) { seen.emplace(linear, inputs); });
    const auto names = decoder::layer_linears(model.config, static_cast<int64_t>(i));
    for (auto first = names.begin(); first != names.end();) {
      GptqGroup group{seen.find(first->inputs)->second, {}};
      auto last = first;
      for (; last != names.end() && last->inputs == first->inputs; ++last)
        group.linears.push_back({last->module(), std::string(kind_of(last->linear)),
                                 decoder::weight_of(layer, last->linear)});
      for (const Tensor& weight : quantise(group))
        decoder::weight_of(layer, (first++)->linear) = weight;
    }
    hidden = decoder::layer_forward(model.config, layer, hidden);
  }
  return model;
}

}  // namespace

void prepare_decoder(const GptqChoice& choice) {
  decoder::train_tiny(choice.model, tiny_settings(choice));
}

GptqScenario decoder_scenario(const GptqChoice& choice) {
  const decoder::TinySettings settings = tiny_settings(choice);
  const auto model = std::make_shared<decoder::Decoder>(decoder::Decoder::read(choice.model));
  const Tensor ids = windows(decoder::tiny_text(settings).train, settings.context,
                             choice.tokens / settings.context);
  GptqScenario out;
  out.layers = settings.layers;
  out.about = "a decoder of " + std::to_string(settings.layers) +
              (settings.layers == 1 ? " layer and " : " layers and ") +
              std::to_string(settings.hidden) + " hidden units, trained here on real text, " +
              std::to_string(ids.numel()) + " calibration tokens of it";
  if (choice.small) out.settings.group = 32, out.settings.block = 16;
  for (const decoder::LinearName& linear : decoder::linears(model->config)) {
    ++out.linears;
    out.work += work_of(linear.rows, linear.columns);
  }
  out.run_decoder = [model, ids](const QuantiseGroup& quantise) {
    return quantise_decoder(*model, ids, quantise);
  };
  out.run = [run = out.run_decoder](const QuantiseGroup& quantise) { run(quantise); };
  return out;
}

nlohmann::json compare_decoders(const GptqChoice& choice, const decoder::Decoder& eager,
                                const decoder::Decoder& compiled) {
  const decoder::TinySettings settings = tiny_settings(choice);
  const decoder::Decoder original = decoder::Decoder::read(choice.model);
  const std::string text = decoder::tiny_text(settings).held_out;
  const Tensor held_out = decoder::byte_ids(text);
  const Tensor ids = windows(text, settings.context, choice.small ? 2 : 16);
  const Tensor prompts = ids.slice(1, 0, settings.context / 4);
  const auto decode = [&](const decoder::Decoder& model) {
    return lab::greedy_decode([&](const Tensor& sequence) { return model.forward(sequence); },
                              prompts, settings.context / 2);
  };
  const auto logits_original = original.forward(ids), logits_eager = eager.forward(ids);
  const lab::GreedyRun greedy_original = decode(original), greedy_eager = decode(eager);
  return {{"logits", to_json(lab::token_agreement(logits_eager, compiled.forward(ids)))},
          {"greedy", to_json(lab::token_agreement(greedy_eager, decode(compiled)))},
          {"against_original",
           {{"logits", to_json(lab::token_agreement(logits_original, logits_eager))},
            {"greedy", to_json(lab::token_agreement(greedy_original, greedy_eager))}}},
          {"perplexity",
           {{"original", decoder::perplexity(original, held_out, settings.context)},
            {"eager", decoder::perplexity(eager, held_out, settings.context)},
            {"compiled", decoder::perplexity(compiled, held_out, settings.context)}}}};
}

}  // namespace graft::cli
