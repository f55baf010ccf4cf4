// Every key is checked: a file is data from outside, and a model run with a key it does not know
// gives wrong logits without a word.
#include "workloads/decoder/config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "formats/files.h"

namespace graft::workloads::decoder {
namespace {

using nlohmann::json;

// Far above any decoder, and keeps every product of two of them in 64 bits.
constexpr int64_t kMost = 100'000'000;

class Reader {
 public:
  Reader(const std::filesystem::path& file, const json& object, std::string inside = {})
      : file_(file), object_(object), inside_(std::move(inside)) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(file_.string() + ": " + what);
  }
  // The value of a key; nullptr if it is missing or null, which Hugging Face takes as its default.
  const json* find(const char* key) const {
    const auto at = object_.find(key);
    return at == object_.end() || at->is_null() ? nullptr : &*at;
  }
  int64_t integer(const char* key, std::optional<int64_t> otherwise = {}, int64_t least = 1) const {
    const json* value = find(key);
    if (value == nullptr && otherwise) return *otherwise;
    if (value == nullptr || !value->is_number_integer() || *value < least || *value > kMost) {
      refuse(key, "an integer of " + std::to_string(least) + " to " + std::to_string(kMost));
    }
    return value->get<int64_t>();
  }
  // A number that lies in [least, most].
  double number(const char* key, double least, double most, const char* expected,
                std::optional<double> otherwise = {}) const {
    const json* value = find(key);
    if (value == nullptr && otherwise) return *otherwise;
    if (value == nullptr || !value->is_number()) refuse(key, expected);
    const double out = value->get<double>();
    if (!(out >= least && out <= most)) refuse(key, expected);
    return out;
  }
  bool flag(const char* key, bool otherwise = false) const {
    const json* value = find(key);
    if (value != nullptr && !value->is_boolean()) refuse(key, "true or false");
    return value == nullptr ? otherwise : value->get<bool>();
  }
  std::string text(const char* key, const char* expected,
                   std::optional<std::string> otherwise = {}) const {
    const json* value = find(key);
    if (value == nullptr && otherwise) return *otherwise;
    if (value == nullptr || !value->is_string()) refuse(key, expected);
    return value->get<std::string>();
  }
  [[noreturn]] void refuse(const char* key, const std::string& expected) const {
    const auto at = object_.find(key);
    fail(inside_ + key + " is " + (at == object_.end() ? "missing" : at->dump()) + "; expected " +
         expected);
  }

 private:
  const std::filesystem::path& file_;
  const json& object_;
  const std::string inside_;  // "rope_scaling.", for messages
};

constexpr const char* kFactor = "a number of 1 to 1e6";

RopeScaling read_scaling(const Reader& in, int64_t positions) {
  const char* expected =
      R"("default", "linear" or "llama3"; other ways to stretch rotary embeddings are not here)";
  // Older files call the kind "type".
  const char* key = in.find("rope_type") == nullptr ? "type" : "rope_type";
  const std::string kind = in.text(key, expected, "default");
  if (in.number("partial_rotary_factor", 0, 1, "1", 1) != 1)
    in.refuse("partial_rotary_factor", "1");
  RopeScaling out;
  if (kind == "default") return out;
  out.factor = in.number("factor", 1, 1e6, kFactor);
  if (kind == "linear") {
    out.kind = RopeScaling::Kind::Linear;
  } else if (kind == "llama3") {
    out.kind = RopeScaling::Kind::Llama3;
    out.low_factor = in.number("low_freq_factor", 1e-6, 1e6, "a number of 1e-6 to 1e6");
    out.high_factor = in.number("high_freq_factor", 1e-6, 1e6, "a number of 1e-6 to 1e6");
    if (!(out.high_factor > out.low_factor)) {
      in.refuse("high_freq_factor", "more than low_freq_factor");
    }
    out.positions = in.integer("original_max_position_embeddings", positions);
  } else {
    in.refuse(key, expected);
  }
  return out;
}

// transformers 4 has rope_theta beside rope_scaling, 5 has both in rope_parameters.
void read_rope(const Reader& in, const std::filesystem::path& file, Config& out) {
  constexpr const char* kTheta = "a number above 1, at most 1e12";
  const double least = std::nextafter(1.0, 2.0);
  out.rope_theta = in.number("rope_theta", least, 1e12, kTheta, out.rope_theta);
  if (in.number("partial_rotary_factor", 0, 1, "1", 1) != 1)
    in.refuse("partial_rotary_factor", "1");
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const json* value = in.find(key);
    if (value == nullptr) continue;
    if (!value->is_object()) in.refuse(key, "an object or null");
    const Reader inner(file, *value, std::string(key) + '.');
    out.rope_theta = inner.number("rope_theta", least, 1e12, kTheta, out.rope_theta);
    const RopeScaling scaling = read_scaling(inner, out.positions);
    if (scaling.kind != RopeScaling::Kind::None) out.rope_scaling = scaling;
  }
}

// Windows that shorten what a layer attends to.
void check_attention_is_full(const Reader& in, const Config& config) {
  // The first max_window_layers layers attend to all, the others to a window.
  if (in.flag("use_sliding_window") &&
      in.integer("max_window_layers", config.layers, /*least=*/0) < config.layers) {
    in.refuse("use_sliding_window", "false: sliding windows are not here");
  }
  const json* types = in.find("layer_types");
  if (types == nullptr) return;
  const auto is_full = [](const json& type) { return type == "full_attention"; };
  if (!types->is_array() || static_cast<int64_t>(types->size()) != config.layers ||
      !std::all_of(types->begin(), types->end(), is_full)) {
    in.refuse("layer_types", std::to_string(config.layers) + " times \"full_attention\"");
  }
}

}  // namespace

Config Config::read(const std::filesystem::path& file) {
  const json object = formats::read_json(file);
  const Reader in(file, object);
  if (!object.is_object()) in.fail("is not a JSON object");

  Config out;
  constexpr const char* kTypes = R"("llama" or "qwen2")";
  out.model_type = in.text("model_type", kTypes);
  if (out.model_type != "llama" && out.model_type != "qwen2") in.refuse("model_type", kTypes);
  out.hidden = in.integer("hidden_size");
  out.layers = in.integer("num_hidden_layers");
  out.heads = in.integer("num_attention_heads");
  out.kv_heads = in.integer("num_key_value_heads", out.heads);
  if (out.heads % out.kv_heads != 0) {
    in.refuse("num_key_value_heads",
              "a divisor of num_attention_heads, " + std::to_string(out.heads));
  }
  if (in.find("head_dim") == nullptr && out.hidden % out.heads != 0) {
    in.refuse("hidden_size", "a multiple of num_attention_heads, " + std::to_string(out.heads) +
                                 ", or a head_dim");
  }
  out.head_dim = in.integer("head_dim", out.hidden / out.heads);
  if (out.head_dim % 2 != 0) {
    in.fail("head_dim is " + std::to_string(out.head_dim) +
            "; expected an even number, for rotary embeddings");
  }
  out.intermediate = in.integer("intermediate_size");
  out.vocabulary = in.integer("vocab_size");
  out.positions = in.integer("max_position_embeddings");
  out.eps = in.number("rms_norm_eps", 0, 1, "a number of 0 to 1");
  read_rope(in, file, out);
  constexpr const char* kActivations = R"("silu")";
  const std::string activation = in.text("hidden_act", kActivations);
  if (activation != "silu" && activation != "swish") in.refuse("hidden_act", kActivations);
  out.tie_embeddings = in.flag("tie_word_embeddings");
  out.qkv_bias = out.model_type == "qwen2";
  for (const char* key : {"attention_bias", "mlp_bias"}) {
    if (out.model_type == "llama" && in.flag(key)) {
      in.refuse(key, "false: only Qwen2's biases are here");
    }
  }
  check_attention_is_full(in, out);
  out.quantized = in.find("quantization_config") != nullptr;
  return out;
}

}  // namespace graft::workloads::decoder
