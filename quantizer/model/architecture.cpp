// Which architecture a folder holds, and whether its tensors fit.
#include "quantizer/model/architecture.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "formats/files.h"
#include "quantizer/model/error.h"

namespace graft::quantizer {
namespace {

std::string described(const Checkpoint::Entry& entry) {
  std::ostringstream text;
  text << c10::toString(entry.dtype) << ' ' << at::IntArrayRef(entry.shape);
  return text.str();
}

void check_linears(const Checkpoint& checkpoint, const Architecture& model) {
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    for (const LinearSpec& linear : model.linears(layer)) {
      const std::string name = linear.module + ".weight";
      const Checkpoint::Entry& entry = checkpoint.entry(name);
      if (!at::isFloatingType(entry.dtype) ||
          entry.shape != std::vector<int64_t>{linear.rows, linear.columns}) {
        throw GptqError(checkpoint.folder().string() + ": tensor '" + name + "' is " +
                        described(entry) + "; config.json asks for a floating type [" +
                        std::to_string(linear.rows) + ", " + std::to_string(linear.columns) + "]");
      }
    }
  }
}

// A norm that is missing from the last layer is found now, not hours later; and a bias that this
// reader does not know, which would be missing from what the layers are calibrated on.
void check_layers_alike(const Checkpoint& checkpoint, const Architecture& model) {
  const std::string first = model.prefix(0);
  std::vector<std::string> known = model.other_tensors();
  for (const LinearSpec& linear : model.linears(0))
    known.push_back(linear.module.substr(first.size()) + ".weight");
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    const std::string prefix = model.prefix(layer);
    for (const std::string& name : checkpoint.names(prefix)) {
      const std::string rest = name.substr(prefix.size());
      // Rotations, which old checkpoints hold and config.json tells.
      if (rest == "self_attn.rotary_emb.inv_freq") continue;
      if (std::find(known.begin(), known.end(), rest) == known.end()) {
        throw GptqError(checkpoint.folder().string() + ": tensor '" + name +
                        "' is not known to this tool in a layer of a \"" + model.type +
                        "\" model, so that calibration would leave it out; if the model runs "
                        "without it, take it out of the checkpoint");
      }
    }
    for (const std::string& rest : known) {
      const std::string name = first + rest, other = prefix + rest;
      const Checkpoint::Entry &expected = checkpoint.entry(name), &entry = checkpoint.entry(other);
      if (entry.shape != expected.shape) {
        throw GptqError(checkpoint.folder().string() + ": tensor '" + other + "' is " +
                        described(entry) + ", but '" + name + "' is " + described(expected));
      }
    }
  }
}

}  // namespace

std::unique_ptr<Architecture> read_architecture(const Checkpoint& checkpoint) {
  const std::filesystem::path file = checkpoint.folder() / "config.json";
  const nlohmann::json json = formats::read_json(file);
  if (!json.is_object()) throw GptqError(file.string() + ": is not a JSON object");
  if (const auto found = json.find("quantization_config");
      found != json.end() && !found->is_null()) {
    throw GptqError(file.string() +
                    ": has a quantization_config, so this model is quantised already; quantise the "
                    "one that it was made from");
  }
  const auto type = json.find("model_type");
  std::unique_ptr<Architecture> out;
  if (type != json.end() && *type == "bert") {
    out = make_bert(checkpoint);
  } else if (type != json.end() && (*type == "llama" || *type == "qwen2")) {
    out = make_decoder(checkpoint);
  } else {
    throw GptqError(file.string() + ": model_type is " +
                    (type == json.end() ? "missing" : type->dump()) +
                    "; this tool quantises \"bert\", \"llama\" and \"qwen2\"");
  }
  check_linears(checkpoint, *out);
  check_layers_alike(checkpoint, *out);
  // The rest of the first layer: norms and biases, of which this reader knows the shapes.
  out->read_layer(checkpoint.read(checkpoint.names(out->prefix(0))), 0);
  return out;
}

}  // namespace graft::quantizer
