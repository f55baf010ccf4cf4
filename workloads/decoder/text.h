// Text to a decoder's token ids and back.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "workloads/decoder/bpe.h"

namespace graft::workloads::decoder {

/// What a model's folder has for it: with a vocabulary of 256 its tokens are bytes, otherwise
/// tokenizer.json says. Thread-safe.
class Text {
 public:
  /// Throws std::runtime_error for a tokenizer that cannot be read, or has ids beyond the
  /// vocabulary.
  Text(const std::filesystem::path& folder, int64_t vocabulary);
  /// Is there a way? The others may be called only then.
  explicit operator bool() const { return bytes_ || tokenizer_; }
  /// Is the text of tokens that are a part of a character U+FFFD (rather than the bytes)?
  bool has_parts() const { return tokenizer_.has_value(); }
  at::Tensor ids(std::string_view text) const;  ///< [N] (int64)
  std::string of(std::span<const int64_t> ids) const;

 private:
  bool bytes_;
  std::optional<BpeTokenizer> tokenizer_;
};

}  // namespace graft::workloads::decoder
