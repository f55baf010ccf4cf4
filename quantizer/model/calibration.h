// The token ids that a model is calibrated with: from a file, from the built-in sentences, or, when
// there is nothing better, at random.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "quantizer/model/architecture.h"

namespace graft::workloads::gptq {

struct CalibrationOptions {
  std::filesystem::path file;  ///< empty: none
  int64_t samples = 128;       ///< at most
  int64_t sequence = 0;        ///< tokens of a sample at most; 0: the architecture's usual number
};

/// How much calibration data there will be.
struct CalibrationSize {
  int64_t samples = 0, tokens = 0;
  int64_t longest = 0;  ///< tokens of a sample
};

/// Samples of equal length are run together, up to so many tokens (one sample may have more).
constexpr int64_t kBatchTokens = 2048;

struct Calibration {
  /// Samples of equal length together, so that nothing is padded: int64 [B, S], the longest first.
  std::vector<at::Tensor> batches;
  int64_t samples = 0, tokens = 0;
  std::string source;   ///< "40 built-in English sentences"
  std::string warning;  ///< what a user should know; empty as a rule
};

/// What files may hold:
/// - BERT-like encoders: text in UTF-8, a sample a line, cut by the tokenizer whose `vocab.txt` is
///   in the model's folder. Without a file: built-in sentences.
/// - Decoders: `*.json` with token ids: a list of lists (a sample each), one long list (cut into
///   samples), or an object with such a value as "input_ids". Text files of ids divided by spaces
///   or commas, a sample a line. With a vocabulary of 256, any other file: its bytes, cut into
///   samples. Without a file: random ids.
/// Of a longer file, samples are taken evenly spread. Deterministic. Throws std::runtime_error
/// naming the file, what is wrong with it, and what is expected. `check` is told how much it will
/// be before it is made, and may throw.
Calibration read_calibration(const CalibrationOptions& options, const Architecture& model,
                             const std::filesystem::path& model_folder,
                             const std::function<void(const CalibrationSize&)>& check = {});

}  // namespace graft::workloads::gptq
