// The token ids that a model is calibrated with: from a file, from built-in sentences, or, if there
// is neither, random.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "quantizer/model/architecture.h"

namespace graft::quantizer {

struct CalibrationOptions {
  std::filesystem::path file;  ///< empty: none
  int64_t samples = 128;       ///< at most
  int64_t sequence = 0;        ///< most tokens of a sample; 0: Architecture::usual_sequence
};

/// How much calibration data there will be.
struct CalibrationSize {
  int64_t samples = 0, tokens = 0;
  int64_t longest = 0;  ///< tokens of a sample
};

/// Samples of equal length run as one batch of up to this many tokens (one sample may have more).
constexpr int64_t kBatchTokens = 2048;

struct Calibration {
  /// Batches of samples of equal length, so that nothing is padded: int64 [B, S], longest first.
  std::vector<at::Tensor> batches;
  int64_t samples = 0, tokens = 0;
  std::string source;   ///< "40 built-in English sentences"
  std::string warning;  ///< what a user should know; usually empty
};

/// What files may hold:
/// - BERT-like encoders: UTF-8 text, one sample per line, tokenized with the `vocab.txt` in the
///   model's folder. Without a file: built-in sentences.
/// - Decoders: `*.json` with token ids: a list of lists (one per sample), one long list (cut into
///   samples), or an object with such a list as "input_ids". Text files with ids separated by
///   spaces or commas, one sample per line. With a vocabulary of 256, any other file: its bytes,
///   cut into samples. Without a file: random ids.
/// From a longer file, samples are taken at even distances. Deterministic. Throws
/// std::runtime_error naming the file, what is wrong with it, and what is expected. `check` is
/// called with the size before the data is made, and may throw.
Calibration read_calibration(const CalibrationOptions& options, const Architecture& model,
                             const std::filesystem::path& model_folder,
                             const std::function<void(const CalibrationSize&)>& check = {});

}  // namespace graft::quantizer
