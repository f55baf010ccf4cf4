#include "workloads/decoder/names.h"

#include <stdexcept>
#include <utility>

namespace graft::workloads::decoder {
namespace {

// In the order in which a layer runs them.
struct Row {
  std::string_view linear, module, inputs;
  at::Tensor LayerWeights::* weight;
};
constexpr Row kRows[] = {
    {"q_proj", "self_attn", "q_proj", &LayerWeights::q},
    {"k_proj", "self_attn", "q_proj", &LayerWeights::k},
    {"v_proj", "self_attn", "q_proj", &LayerWeights::v},
    {"o_proj", "self_attn", "o_proj", &LayerWeights::o},
    {"gate_proj", "mlp", "gate_proj", &LayerWeights::gate},
    {"up_proj", "mlp", "gate_proj", &LayerWeights::up},
    {"down_proj", "mlp", "down_proj", &LayerWeights::down},
};

const Row& row_of(std::string_view linear) {
  for (const Row& row : kRows) {
    if (row.linear == linear) return row;
  }
  throw std::invalid_argument("decoder: no linear layer \"" + std::string(linear) +
                              "\"; expected q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj or "
                              "down_proj");
}

// Out and in features.
std::pair<int64_t, int64_t> size_of(const Config& c, std::string_view linear) {
  const int64_t queries = c.heads * c.head_dim, keys = c.kv_heads * c.head_dim;
  if (linear == "q_proj") return {queries, c.hidden};
  if (linear == "k_proj" || linear == "v_proj") return {keys, c.hidden};
  if (linear == "o_proj") return {c.hidden, queries};
  if (linear == "down_proj") return {c.hidden, c.intermediate};
  return {c.intermediate, c.hidden};
}

}  // namespace

std::string LinearName::module() const {
  return tensor.substr(0, tensor.size() - std::string_view(".weight").size());
}

std::vector<LinearName> layer_linears(const Config& config, int64_t layer) {
  std::vector<LinearName> out;
  for (const Row& row : kRows) {
    const auto [rows, columns] = size_of(config, row.linear);
    std::string tensor = "model.layers." + std::to_string(layer) + '.' + std::string(row.module) +
                         '.' + std::string(row.linear) + ".weight";
    out.push_back({std::move(tensor), layer, row.linear, row.inputs, rows, columns});
  }
  return out;
}

std::vector<LinearName> linears(const Config& config) {
  std::vector<LinearName> out;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    for (LinearName& name : layer_linears(config, layer)) out.push_back(std::move(name));
  }
  return out;
}

at::Tensor& weight_of(LayerWeights& weights, std::string_view linear) {
  return weights.*row_of(linear).weight;
}

const at::Tensor& weight_of(const LayerWeights& weights, std::string_view linear) {
  return weights.*row_of(linear).weight;
}

}  // namespace graft::workloads::decoder
