#include "support/tiny_checkpoints.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <fstream>
#include <utility>
#include <vector>

#include "formats/safetensors_writer.h"

namespace graft::test {
namespace {

constexpr int kHidden = 32, kWide = 64, kLayers = 3;

// Random weights that the order in which they are asked for decides.
class Maker {
 public:
  Maker(TinyCheckpoint& out, at::ScalarType dtype) : out_(out), dtype_(dtype) {}

  void matrix(const std::string& name, int64_t rows, int64_t columns) {
    out_.tensors[name] = (at::randn({rows, columns}, generator_) * 0.2).to(dtype_);
  }
  void vector(const std::string& name, int64_t size) {
    out_.tensors[name] = (at::randn({size}, generator_) * 0.1).to(dtype_);
  }
  void norm(const std::string& name, int64_t size) {
    out_.tensors[name] = at::ones({size}).to(dtype_);
  }
  void linear(const std::string& name, int64_t rows, int64_t columns) {
    matrix(name + ".weight", rows, columns);
    vector(name + ".bias", rows);
  }
  void layer_norm(const std::string& name) {
    norm(name + ".weight", kHidden);
    vector(name + ".bias", kHidden);
  }

 private:
  TinyCheckpoint& out_;
  at::ScalarType dtype_;
  at::Generator generator_ = at::detail::createCPUGenerator(1);
};

std::vector<std::string> vocabulary() {
  std::vector<std::string> out = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  for (char c = 'a'; c <= 'z'; ++c) out.push_back(std::string(1, c));
  for (const char* word : {"the", "to", "and", "of", "in", "##s", "##e", "##t", "##a", "##n", "##r",
                           "##i", "##o", "##l", "##d", "##h", "##u", ".", ","}) {
    out.emplace_back(word);
  }
  return out;
}

}  // namespace

TinyCheckpoint TinyCheckpoint::bert() {
  TinyCheckpoint out;
  out.config = {
      {"model_type", "bert"},     {"hidden_act", "gelu"},          {"hidden_size", kHidden},
      {"num_attention_heads", 2}, {"num_hidden_layers", kLayers},  {"intermediate_size", kWide},
      {"vocab_size", 50},         {"max_position_embeddings", 64}, {"type_vocab_size", 2},
      {"layer_norm_eps", 1e-12}};
  Maker make(out, at::kFloat);
  make.matrix("embeddings.word_embeddings.weight", 50, kHidden);
  make.matrix("embeddings.position_embeddings.weight", 64, kHidden);
  make.matrix("embeddings.token_type_embeddings.weight", 2, kHidden);
  make.layer_norm("embeddings.LayerNorm");
  for (int i = 0; i < kLayers; ++i) {
    const std::string at = "encoder.layer." + std::to_string(i) + '.';
    for (const char* name : {"query", "key", "value"})
      make.linear(at + "attention.self." + name, kHidden, kHidden);
    make.linear(at + "attention.output.dense", kHidden, kHidden);
    make.layer_norm(at + "attention.output.LayerNorm");
    make.linear(at + "intermediate.dense", kWide, kHidden);
    make.linear(at + "output.dense", kHidden, kWide);
    make.layer_norm(at + "output.LayerNorm");
  }
  make.linear("pooler.dense", kHidden, kHidden);
  return out;
}

TinyCheckpoint TinyCheckpoint::qwen2() {
  TinyCheckpoint out;
  out.config = {
      {"model_type", "qwen2"},      {"hidden_act", "silu"},     {"hidden_size", kHidden},
      {"num_attention_heads", 4},   {"num_key_value_heads", 2}, {"num_hidden_layers", kLayers},
      {"intermediate_size", kWide}, {"vocab_size", 256},        {"max_position_embeddings", 64},
      {"rms_norm_eps", 1e-6},       {"rope_theta", 10000.0},    {"tie_word_embeddings", false}};
  Maker make(out, at::kBFloat16);
  make.matrix("model.embed_tokens.weight", 256, kHidden);
  for (int i = 0; i < kLayers; ++i) {
    const std::string at = "model.layers." + std::to_string(i) + '.';
    make.linear(at + "self_attn.q_proj", kHidden, kHidden);
    make.linear(at + "self_attn.k_proj", kHidden / 2, kHidden);
    make.linear(at + "self_attn.v_proj", kHidden / 2, kHidden);
    make.matrix(at + "self_attn.o_proj.weight", kHidden, kHidden);
    make.matrix(at + "mlp.gate_proj.weight", kWide, kHidden);
    make.matrix(at + "mlp.up_proj.weight", kWide, kHidden);
    make.matrix(at + "mlp.down_proj.weight", kHidden, kWide);
    make.norm(at + "input_layernorm.weight", kHidden);
    make.norm(at + "post_attention_layernorm.weight", kHidden);
  }
  make.norm("model.norm.weight", kHidden);
  make.matrix("lm_head.weight", 256, kHidden);
  return out;
}

void TinyCheckpoint::write(const std::filesystem::path& folder, int shards) const {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << config.dump(2);
  std::ofstream(folder / "tokenizer_config.json") << "{}\n";
  if (config["model_type"] == "bert") {
    std::ofstream file(folder / "vocab.txt");
    for (const std::string& word : vocabulary()) file << word << '\n';
  }
  std::vector<std::vector<std::pair<std::string, at::Tensor>>> parts(static_cast<size_t>(shards));
  size_t i = 0;
  for (const auto& [name, tensor] : tensors)
    parts[i++ % static_cast<size_t>(shards)].emplace_back(name, tensor);
  if (shards == 1) {
    formats::write_safetensors(folder / "model.safetensors", parts[0]);
    return;
  }
  nlohmann::json index;
  for (int part = 0; part < shards; ++part) {
    const std::string shard = "part-" + std::to_string(part) + ".safetensors";
    formats::write_safetensors(folder / shard, parts[static_cast<size_t>(part)]);
    for (const auto& [name, tensor] : parts[static_cast<size_t>(part)])
      index["weight_map"][name] = shard;
  }
  std::ofstream(folder / "model.safetensors.index.json") << index.dump();
}

}  // namespace graft::test
