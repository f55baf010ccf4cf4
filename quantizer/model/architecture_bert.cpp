// BERT-like encoders: MiniLM and its kind, with or without a `bert.` before the tensors' names.
#include <ATen/ATen.h>

#include <stdexcept>

#include "quantizer/model/architecture.h"
#include "workloads/minilm/model.h"
#include "workloads/minilm/tokenizer.h"

namespace graft::quantizer {
namespace {

using at::Tensor;

// fp32 and of this process's memory, so that it stays when the file is gone.
Tensor own(const formats::Safetensors& file, const std::string& name, at::IntArrayRef sizes) {
  const Tensor& tensor = file.get(name);
  return file.get(name, tensor.scalar_type(), sizes).to(at::kFloat, false, /*copy=*/true);
}

class BertLayer : public Layer {
 public:
  BertLayer(const workloads::minilm::Config& config, const formats::Safetensors& file,
            const std::string& at)
      : config_(config) {
    const int64_t hidden = config.hidden, wide = config.intermediate;
    const auto linear = [&](const char* name, int64_t rows, int64_t columns) {
      return workloads::minilm::Linear{own(file, at + name + ".weight", {rows, columns}),
                                       own(file, at + name + ".bias", {rows})};
    };
    const auto norm = [&](const char* name) {
      return workloads::minilm::Norm{own(file, at + name + ".weight", {hidden}),
                                     own(file, at + name + ".bias", {hidden})};
    };
    layer_.query = linear("attention.self.query", hidden, hidden);
    layer_.key = linear("attention.self.key", hidden, hidden);
    layer_.value = linear("attention.self.value", hidden, hidden);
    layer_.output = linear("attention.output.dense", hidden, hidden);
    layer_.attention_norm = norm("attention.output.LayerNorm");
    layer_.up = linear("intermediate.dense", wide, hidden);
    layer_.down = linear("output.dense", hidden, wide);
    layer_.output_norm = norm("output.LayerNorm");
  }

  Tensor forward(const Tensor& hidden, const Observer& observe) const override {
    const int64_t batch = hidden.size(0), length = hidden.size(1);
    const auto show = [&](std::string_view key, const Tensor& inputs) {
      if (observe) observe(key, inputs.reshape({-1, inputs.size(-1)}));
    };
    const auto heads = [&](const Tensor& x) {
      return x.view({batch, length, config_.heads, config_.hidden / config_.heads}).transpose(1, 2);
    };
    for (const char* key : {"query", "key", "value"}) show(key, hidden);
    const auto [q, k, v] = workloads::minilm::linear_qkv(
        hidden, layer_.query.weight, layer_.query.bias, layer_.key.weight, layer_.key.bias,
        layer_.value.weight, layer_.value.bias);
    const Tensor context = at::scaled_dot_product_attention(heads(q), heads(k), heads(v))
                               .transpose(1, 2)
                               .reshape({batch, length, config_.hidden});
    show("output", context);
    const Tensor attended = workloads::minilm::linear_residual_norm(
        context, layer_.output.weight, layer_.output.bias, hidden, layer_.attention_norm.weight,
        layer_.attention_norm.bias, config_.eps);
    show("up", attended);
    const Tensor up = workloads::minilm::linear_gelu(attended, layer_.up.weight, layer_.up.bias);
    show("down", up);
    return workloads::minilm::linear_residual_norm(up, layer_.down.weight, layer_.down.bias,
                                                   attended, layer_.output_norm.weight,
                                                   layer_.output_norm.bias, config_.eps);
  }

  Tensor& weight(std::string_view key) override {
    if (key == "query") return layer_.query.weight;
    if (key == "key") return layer_.key.weight;
    if (key == "value") return layer_.value.weight;
    if (key == "output") return layer_.output.weight;
    if (key == "up") return layer_.up.weight;
    if (key == "down") return layer_.down.weight;
    throw std::invalid_argument("a BERT layer has no linear layer '" + std::string(key) + "'");
  }

 private:
  workloads::minilm::Config config_;
  workloads::minilm::Layer layer_;
};

class Bert : public Architecture {
 public:
  explicit Bert(const Checkpoint& checkpoint)
      : config_(workloads::minilm::Config::read(checkpoint.folder() / "config.json")) {
    type = "bert";
    layers = config_.layers;
    hidden = config_.hidden;
    intermediate = config_.intermediate;
    heads = config_.heads;
    vocabulary = config_.vocabulary;
    positions = config_.positions;
    usual_sequence = static_cast<int64_t>(workloads::minilm::Tokenizer::kMaxLength);
    word_piece = true;
    // BertModel's names, or those of a model with a head, which holds a BertModel as `bert`.
    if (checkpoint.entries().contains("bert.embeddings.word_embeddings.weight")) root_ = "bert.";
    for (const char* name :
         {"pooler.dense", "cls.predictions.transform.dense", "cls.predictions.decoder",
          "cls.seq_relationship", "classifier", "qa_outputs"}) {
      for (const std::string& module : {root_ + name, std::string(name)}) {
        if (checkpoint.entries().contains(module + ".weight")) {
          other_linears_.push_back(module);
          break;
        }
      }
    }
  }

  std::string prefix(int64_t layer) const override {
    return root_ + "encoder.layer." + std::to_string(layer) + '.';
  }

  std::vector<LinearSpec> linears(int64_t layer) const override {
    const std::string at = prefix(layer);
    const int64_t h = config_.hidden, wide = config_.intermediate;
    return {{at + "attention.self.query", "query", "query", h, h},
            {at + "attention.self.key", "key", "query", h, h},
            {at + "attention.self.value", "value", "query", h, h},
            {at + "attention.output.dense", "output", "output", h, h},
            {at + "intermediate.dense", "up", "up", wide, h},
            {at + "output.dense", "down", "down", h, wide}};
  }

  std::vector<std::string> other_tensors() const override {
    std::vector<std::string> out;
    for (const LinearSpec& linear : linears(0))
      out.push_back(linear.module.substr(prefix(0).size()) + ".bias");
    for (const char* norm : {"attention.output.LayerNorm.", "output.LayerNorm."})
      for (const char* part : {"weight", "bias"}) out.push_back(std::string(norm) + part);
    return out;
  }

  std::vector<std::string> other_linears() const override { return other_linears_; }

  Tensor embed(const Checkpoint& checkpoint, const Tensor& ids) const override {
    const std::string at = root_ + "embeddings.";
    const formats::Safetensors file = checkpoint.read(
        {at + "word_embeddings.weight", at + "position_embeddings.weight",
         at + "token_type_embeddings.weight", at + "LayerNorm.weight", at + "LayerNorm.bias"});
    const int64_t h = config_.hidden;
    // The rows that the ids name, and their numbers among these rows.
    const auto [rows, numbers, counts] = at::unique_dim(ids.reshape({-1}), 0, true, true);
    const Tensor& words = file.get(at + "word_embeddings.weight");
    const Tensor table =
        file.get(at + "word_embeddings.weight", words.scalar_type(), {config_.vocabulary, h})
            .index_select(0, rows)
            .to(at::kFloat);
    return workloads::minilm::embed_norm(
        numbers.view(ids.sizes()), table,
        own(file, at + "position_embeddings.weight", {config_.positions, h}),
        own(file, at + "token_type_embeddings.weight", {config_.token_types, h}),
        own(file, at + "LayerNorm.weight", {h}), own(file, at + "LayerNorm.bias", {h}),
        config_.eps);
  }

  std::unique_ptr<Layer> read_layer(const formats::Safetensors& tensors,
                                    int64_t layer) const override {
    return std::make_unique<BertLayer>(config_, tensors, prefix(layer));
  }

  Tensor vectors(const Tensor& hidden) const override {
    return workloads::minilm::pool_normalize(hidden,
                                             at::ones({hidden.size(0), hidden.size(1)}, at::kLong));
  }

 private:
  workloads::minilm::Config config_;
  std::string root_;
  std::vector<std::string> other_linears_;
};

}  // namespace

std::unique_ptr<Architecture> make_bert(const Checkpoint& checkpoint) {
  return std::make_unique<Bert>(checkpoint);
}

}  // namespace graft::quantizer
