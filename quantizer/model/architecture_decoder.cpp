// Llama- and Qwen2-like decoders, by way of workloads/decoder.
#include <ATen/ATen.h>

#include <algorithm>

#include "quantizer/model/architecture.h"
#include "workloads/decoder/model.h"
#include "workloads/decoder/names.h"

namespace graft::quantizer {
namespace {

using at::Tensor;

class DecoderLayer : public Layer {
 public:
  DecoderLayer(const workloads::decoder::Config& config, workloads::decoder::LayerWeights weights)
      : config_(config), weights_(std::move(weights)) {}

  Tensor forward(const Tensor& hidden, const Observer& observe) const override {
    return workloads::decoder::layer_forward(config_, weights_, hidden, observe);
  }
  Tensor& weight(std::string_view key) override {
    return workloads::decoder::weight_of(weights_, key);
  }

 private:
  workloads::decoder::Config config_;
  workloads::decoder::LayerWeights weights_;
};

class Decoder : public Architecture {
 public:
  explicit Decoder(const Checkpoint& checkpoint)
      : config_(workloads::decoder::Config::read(checkpoint.folder() / "config.json")) {
    type = config_.model_type;
    layers = config_.layers;
    hidden = config_.hidden;
    intermediate = config_.intermediate;
    heads = config_.heads;
    vocabulary = config_.vocabulary;
    positions = config_.positions;
    // Not run here, but copied: a model without them is of no use.
    checkpoint.entry("model.norm.weight");
    if (!config_.tie_embeddings) checkpoint.entry("lm_head.weight");
  }

  std::string prefix(int64_t layer) const override {
    return "model.layers." + std::to_string(layer) + '.';
  }

  std::vector<LinearSpec> linears(int64_t layer) const override {
    std::vector<LinearSpec> out;
    for (const workloads::decoder::LinearName& name :
         workloads::decoder::layer_linears(config_, layer)) {
      out.push_back({name.module(), std::string(name.linear), std::string(name.inputs), name.rows,
                     name.columns});
    }
    return out;
  }

  std::vector<std::string> other_tensors() const override {
    std::vector<std::string> out = {"input_layernorm.weight", "post_attention_layernorm.weight"};
    if (config_.qkv_bias)
      for (const char* bias : {"q_proj.bias", "k_proj.bias", "v_proj.bias"})
        out.push_back(std::string("self_attn.") + bias);
    return out;
  }

  std::vector<std::string> other_linears() const override { return {"lm_head"}; }

  Tensor embed(const Checkpoint& checkpoint, const Tensor& ids) const override {
    const std::string name = "model.embed_tokens.weight";
    const formats::Safetensors file = checkpoint.read({name});
    workloads::decoder::OuterWeights outer;
    const Tensor& table = file.get(name);
    outer.embedding = file.get(name, table.scalar_type(), {config_.vocabulary, config_.hidden});
    return workloads::decoder::embed(config_, outer, ids).to(at::kFloat);
  }

  std::unique_ptr<Layer> read_layer(const formats::Safetensors& tensors,
                                    int64_t layer) const override {
    return std::make_unique<DecoderLayer>(config_,
                                          workloads::decoder::read_layer(config_, tensors, layer));
  }

  Tensor vectors(const Tensor& hidden) const override {
    return hidden.reshape({-1, hidden.size(-1)});
  }

 private:
  workloads::decoder::Config config_;
};

}  // namespace

std::unique_ptr<Architecture> make_decoder(const Checkpoint& checkpoint) {
  return std::make_unique<Decoder>(checkpoint);
}

}  // namespace graft::quantizer
