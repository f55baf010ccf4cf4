#include <ATen/ATen.h>
#include <graft/graft.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "cli/frame/usage.h"
#include "experiments/frame/folder.h"
#include "experiments/frame/tables.h"
#include "experiments/llama/parts.h"
#include "formats/files.h"
#include "lab/stats.h"
#include "lab/timer.h"
#include "lab/words.h"
#include "workloads/decoder/model.h"
#include "workloads/decoder/text.h"
#include "workloads/decoder/tiny.h"

namespace graft::experiments::llama {
namespace {

using at::Tensor;
namespace decoder = workloads::decoder;
namespace fs = std::filesystem;

/// One line, for a note.
std::string shown(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '\n' || c == '\r' ? ' ' : c;
  return '"' + out + '"';
}

struct Variant {
  std::string name;
  decoder::Forward forward;
  std::function<Report()> report = {};
  std::function<void()> wait = {};
};

/// Layers as one function of weights, which all of them share; and layers, last norm and head as
/// one function. Ids are looked up, and checked, outside.
std::vector<Variant> variants_of(const std::shared_ptr<const decoder::Decoder>& model) {
  const int64_t positions = model->config.positions;
  const auto embed = [model](const Tensor& ids) {
    return decoder::embed(model->config, model->outer, ids);
  };
  Options options;
  options.cache = false;
  options.sizes = Sizes::Family;
  options.name = "layer";
  const auto layer = graft::compile(
      [model](const Tensor& hidden, const std::vector<Tensor>& all) {
        decoder::LayerWeights w;
        size_t next = 0;
        for (Tensor* weight :
             {&w.q, &w.k, &w.v, &w.o, &w.gate, &w.up, &w.down, &w.input_norm, &w.post_norm})
          *weight = all[next++];
        if (all.size() > next)
          for (Tensor* bias : {&w.q_bias, &w.k_bias, &w.v_bias}) *bias = all[next++];
        return decoder::layer_forward(model->config, w, hidden);
      },
      options);
  const auto by_layers = [model, embed, layer](const Tensor& ids) {
    Tensor hidden = embed(ids);
    for (const decoder::LayerWeights& w : model->layers) {
      std::vector<Tensor> all{w.q, w.k, w.v, w.o, w.gate, w.up, w.down, w.input_norm, w.post_norm};
      if (w.q_bias.defined()) all.insert(all.end(), {w.q_bias, w.k_bias, w.v_bias});
      hidden = layer(hidden, all);
    }
    return decoder::logits(model->config, model->outer, hidden);
  };
  options.name = "whole";
  const auto whole = graft::compile(
      [model](const Tensor& embedded) {
        Tensor hidden = embedded;
        for (const decoder::LayerWeights& w : model->layers)
          hidden = decoder::layer_forward(model->config, w, hidden);
        return decoder::logits(model->config, model->outer, hidden);
      },
      options);
  return {{"eager", {[model](const Tensor& ids) { return model->forward(ids); }, positions}},
          {"graft_layers",
           {by_layers, positions},
           [layer] { return layer.report(); },
           [layer] { layer.wait(); }},
          {"graft",
           {[embed, whole](const Tensor& ids) { return whole(embed(ids)); }, positions},
           [whole] { return whole.report(); },
           [whole] { whole.wait(); }}};
}

}  // namespace

lab::Section pretrained(const Pretrained& choice, const Settings& settings, const Say& say) {
  const Folder folder(choice.model, "llama: --model");
  const bool tiny = choice.model.empty();
  decoder::TinySettings training;
  training.steps = settings.small ? 4 : settings.quick ? 60 : 400;
  if (settings.small) training.layers = 1, training.hidden = 32, training.intermediate = 48;
  if (tiny) {
    say(0, "training a small decoder");
    decoder::train_tiny(folder.file("tiny"), training, nullptr);
  }
  const fs::path path = tiny ? folder.file("tiny") : choice.model;
  say(0.3, "reading " + path.string());
  const auto model =
      std::make_shared<const decoder::Decoder>(decoder::Decoder::read(path, at::kFloat));
  const decoder::Text tokens(path, model->config.vocabulary);
  if (!tokens)
    throw cli::UsageError(path.string() + ": has no tokenizer.json, and a vocabulary of " +
                          std::to_string(model->config.vocabulary) +
                          " tokens, more than the 256 of a model of bytes; put the model's "
                          "tokenizer.json beside its config.json");
  const std::string text =
      choice.text.empty() ? decoder::tiny_text({}).held_out : formats::read_file(choice.text);
  const int64_t count = settings.small   ? 2
                        : settings.quick ? 8
                                         : 24,
                window = std::min<int64_t>(model->config.positions, 512),
                continued = settings.small   ? 6
                            : settings.quick ? 24
                                             : 64;
  const Tensor ids = tokens.ids(text);
  const Tensor scored = ids.slice(0, 0, std::min(ids.size(0), count * window));
  const Tensor prompt = ids.slice(0, 0, std::min<int64_t>(ids.size(0), 24)).contiguous();

  lab::Section out{
      "pretrained", "Real weights",
      (tiny ? "A byte-level decoder of " + std::to_string(model->config.layers) +
                  " layers, trained here for " + std::to_string(training.steps) + " steps."
            : path.string() + ": " + std::to_string(model->config.layers) + " layers of width " +
                  std::to_string(model->config.hidden) + '.') +
          " Perplexity of " + std::to_string(scored.size(0)) + " tokens in windows of " +
          std::to_string(window) + "; then a prompt is continued by " + std::to_string(continued) +
          " tokens, the likeliest each, every length anew. fp32; the compiled model's "
          "lengths share plans (Sizes::Family)."};
  out.table =
      lab::Table(columns({"variant"}, {"perplexity", "ms a window", "against eager",
                                       "tokens as eager's", "plans", "calls served by a plan"}));
  const at::NoGradGuard no_grad;
  double eager_ms = 0;
  Tensor eager_tokens;
  for (const Variant& variant : variants_of(model)) {
    say(0.5, variant.name);
    for (int i = 0; variant.wait && i < 6; ++i) {  // recorded, compiled, proven, raced
      (void)variant.forward.logits(
          scored.slice(0, 0, std::min(window, scored.size(0))).unsqueeze(0));
      variant.wait();
    }
    const double perplexity = decoder::perplexity(variant.forward, scored, window);
    std::vector<double> ms;
    for (int i = 0; i < std::max(5, settings.trial_count()); ++i)
      ms.push_back(lab::time_once_ms([&] {
        (void)variant.forward.logits(
            scored.slice(0, 0, std::min(window, scored.size(0))).unsqueeze(0));
      }));
    const Tensor made = decoder::greedy(variant.forward, prompt, continued);
    if (!variant.report) eager_ms = lab::median(ms), eager_tokens = made;
    const int64_t equal = made.eq(eager_tokens).to(at::kLong).cumprod(0).sum().item<int64_t>();
    const Report report = variant.report ? variant.report() : Report{};
    out.table.row({variant.name,
                   lab::number(perplexity, 8),
                   lab::number(lab::median(ms)),
                   variant.report ? times_cell(eager_ms / lab::median(ms)) : lab::Cell(""),
                   {std::to_string(equal) + " of " + std::to_string(continued),
                    equal == continued ? lab::Style::Good : lab::Style::Bad},
                   variant.report ? std::to_string(report.plans) : "",
                   variant.report
                       ? std::to_string(report.plan_hits) + " of " + std::to_string(report.calls)
                       : ""});
    out.notes.push_back(
        variant.name + ": " +
        shown(tokens.of({made.const_data_ptr<int64_t>(), static_cast<size_t>(made.numel())})));
  }
  return out;
}

}  // namespace graft::experiments::llama
