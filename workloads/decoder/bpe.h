// Byte-pair encoding as Hugging Face's `tokenizers` does it for Llama and Qwen2: text to token ids
// and back, by a model's tokenizer.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace graft::workloads::decoder {

/// Reads tokenizers whose model is BPE, with or without byte fallback; normalizers Prepend,
/// Replace, NFC, NFD, NFKC and NFKD; pre-tokenizers Split, ByteLevel, Metaspace and Digits;
/// post-processors TemplateProcessing and ByteLevel; decoders ByteLevel, Replace, ByteFallback,
/// Fuse, Strip and Metaspace; and Sequences of these. What it does not know it refuses: ids that
/// are nearly right are wrong. Thread-safe.
class BpeTokenizer {
 public:
  /// Throws std::runtime_error naming the file, and the part that is missing or not known.
  explicit BpeTokenizer(const std::filesystem::path& file);
  ~BpeTokenizer();
  BpeTokenizer(BpeTokenizer&& other) noexcept;
  BpeTokenizer& operator=(BpeTokenizer&& other) noexcept;

  /// The ids of a text, with those that the model expects around it (a token that begins a text).
  /// Names of added tokens in the text become these tokens. Throws std::runtime_error for text that
  /// is not UTF-8, and where a character has no token and the tokenizer has none for unknown ones.
  std::vector<int64_t> encode(std::string_view text) const;
  /// The text of ids, without special tokens. Bytes that are no UTF-8 become U+FFFD. Throws
  /// std::runtime_error for an id that the tokenizer does not have.
  std::string decode(std::span<const int64_t> ids) const;
  /// One more than the largest id.
  int64_t vocabulary() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace graft::workloads::decoder
