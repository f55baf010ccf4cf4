#include "quantizer/model/read_generator.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>

#include "formats/files.h"
#include "formats/safetensors.h"
#include "quantizer/model/error.h"
#include "quantizer/model/pack.h"
#include "workloads/decoder/names.h"
#include "workloads/decoder/weight.h"

namespace graft::quantizer {

namespace {

namespace decoder = workloads::decoder;
using at::Tensor;
using decoder::Weight;

/// The member of that name; null where there is none, or no object around it.
const nlohmann::json* member(const nlohmann::json* of, const char* name) {
  if (of == nullptr || !of->is_object()) return nullptr;
  const auto found = of->find(name);
  return found == of->end() ? nullptr : &*found;
}

/// Bits of the codes that config.json names.
int bits_of(const std::filesystem::path& config) {
  const nlohmann::json all = formats::read_json(config);
  const nlohmann::json* const found = member(&all, "quantization_config");
  const nlohmann::json *const format = member(found, "format"), *const groups =
                                                                    member(found, "config_groups");
  if (format == nullptr || *format != "pack-quantized" || groups == nullptr ||
      !groups->is_object() || groups->size() != 1)
    throw GptqError(config.string() + ": quantization_config has format " +
                    (format == nullptr ? "nothing" : format->dump()) +
                    "; expected \"pack-quantized\" with one group of settings, as graft quantize "
                    "writes it");
  const nlohmann::json* const bits = member(member(&*groups->begin(), "weights"), "num_bits");
  if (bits == nullptr || !bits->is_number_integer() || (*bits != 3 && *bits != 4 && *bits != 8))
    throw GptqError(config.string() + ": num_bits is " +
                    (bits == nullptr ? "missing" : bits->dump()) + "; expected 3, 4 or 8");
  return bits->get<int>();
}

Weight packed_weight(const PackedLinear& linear, int bits, const decoder::LinearName& name) {
  const UnpackedLinear u = unpack_linear(linear, bits, name.module());
  const int64_t rows = u.codes.size(0), columns = u.codes.size(1);
  if (rows != name.rows || columns != name.columns)
    throw GptqError(name.module() + ": weight_shape is [" + std::to_string(rows) + ", " +
                    std::to_string(columns) + "]; config.json makes it [" +
                    std::to_string(name.rows) + ", " + std::to_string(name.columns) + "]");
  const bool is_mixed = linear.group_index.defined();
  return decoder::coded_weight(u.codes, u.scale, u.zero, bits, is_mixed ? u.group : Tensor());
}

class Reader {
 public:
  Reader(const std::filesystem::path& folder, const GeneratorOptions& options)
      : options_(options), file_(formats::read_checkpoint(folder)) {
    made_.config = decoder::Config::read(folder / "config.json");
    if (made_.config.quantized) bits_ = bits_of(folder / "config.json");
  }

  decoder::Generator read() {
    const decoder::Config& c = made_.config;
    const decoder::OuterWeights outer = decoder::read_outer(c, file_, options_.dtype);
    made_.embedding = outer.embedding;
    made_.norm = outer.norm;
    made_.head = plain(outer.head, "lm_head.weight");
    for (int64_t k = 0; k < c.layers; ++k) made_.layers.push_back(layer(k));
    return std::move(made_);
  }

 private:
  Weight plain(const Tensor& values, const std::string& name) const {
    if (options_.bits != 0) {
      int64_t group = std::min(options_.group, values.size(1));
      while (values.size(1) % group != 0) --group;
      try {
        return decoder::nearest_codes(values, options_.bits, group);
      } catch (const std::invalid_argument& error) {
        throw GptqError(name + ": " + error.what());
      }
    }
    return decoder::dense_weight(values);
  }

  decoder::Layer layer(int64_t k) const {
    const decoder::LayerWeights small =
        decoder::read_small_weights(made_.config, file_, k, options_.dtype);
    decoder::Layer out;
    const std::array<Weight*, 7> weights = out.weights();
    size_t next = 0;
    for (const decoder::LinearName& name : decoder::layer_linears(made_.config, k)) {
      const bool coded = file_.tensors.contains(name.module() + ".weight_packed");
      if (coded && bits_ == 0)
        throw GptqError(name.module() +
                        ": the weights are packed codes, and config.json has no "
                        "quantization_config that says of how many bits");
      *weights[next++] =
          coded ? packed_weight(read_packed(file_, name.module()), bits_, name)
                : plain(decoder::read_linear(file_, name, options_.dtype), name.tensor);
    }
    out.q.bias = small.q_bias, out.k.bias = small.k_bias, out.v.bias = small.v_bias;
    out.input_norm = small.input_norm, out.post_norm = small.post_norm;
    return out;
  }

  const GeneratorOptions options_;
  const formats::Safetensors file_;
  int bits_ = 0;
  decoder::Generator made_;
};

}  // namespace

decoder::Generator read_generator(const std::filesystem::path& folder,
                                  const GeneratorOptions& options) {
  const at::NoGradGuard no_grad;
  return Reader(folder, options).read();
}

}  // namespace graft::quantizer
