// A small byte-level decoder, trained here on real text (the licences that Debian installs), so
// that perplexity and greedy tokens are meaningful without a pretrained decoder.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/decoder/model.h"

namespace graft::workloads::decoder {

struct TinySettings {
  int64_t layers = 4;
  int64_t hidden = 128;
  int64_t heads = 4;
  int64_t kv_heads = 2;
  int64_t intermediate = 344;
  int64_t context = 128;
  int64_t batch = 16;
  int64_t steps = 400;
  double learning_rate = 3e-3;  ///< its peak, between a warm-up and a cosine decay
  uint64_t seed = 0;
  std::filesystem::path texts = "/usr/share/common-licenses";
};

/// Of the model that they describe. Throws std::invalid_argument for settings that fit no model.
Config tiny_config(const TinySettings& settings);

/// The texts, joined in a fixed order; `held_out` is one file that the model is not trained on.
struct TinyText {
  std::string train;
  std::string held_out;
};
/// Throws std::runtime_error naming the first file that is missing and where it comes from.
TinyText tiny_text(const TinySettings& settings);

struct TinyResult {
  bool reused = false;         ///< the folder held a model of these settings and texts
  double seconds = 0;          ///< how long training took
  std::vector<double> losses;  ///< of each training step, in nats per byte
};

/// Trains a decoder and saves it as a Hugging Face folder: config.json, model.safetensors (fp32),
/// and tiny.json with the settings and losses. A folder that holds a model of equal settings and
/// texts is left as it is. The same settings give the same bits. Uses two threads. Progress goes to
/// `log` (nullptr: nowhere). Throws std::invalid_argument for settings that fit no model, and
/// std::runtime_error if texts are missing, files cannot be written, or the folder holds other
/// files.
TinyResult train_tiny(const std::filesystem::path& folder, const TinySettings& settings,
                      std::ostream* log);
/// With progress and time left on stderr.
TinyResult train_tiny(const std::filesystem::path& folder, const TinySettings& settings = {});

/// A token is a byte: text → ids [N] (int64), and back (ids of 0 to 255).
at::Tensor byte_ids(std::string_view text);
std::string byte_text(const at::Tensor& ids);

}  // namespace graft::workloads::decoder
