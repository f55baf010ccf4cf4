// BERT's uncased WordPiece tokenizer: from UTF-8 text to the token ids of the pretrained weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace graft::workloads::minilm {

/// Gives the ids of Hugging Face's `tokenizers` for this model. Known differences: the version of
/// Unicode (14 here), and the few letters of Indic scripts that decompose into two letters.
class Tokenizer {
 public:
  static constexpr size_t kMaxLength = 256;  ///< what this model was trained for

  /// Reads `vocab.txt`: one token per line, whose id is the line's number from 0. Throws
  /// std::runtime_error.
  explicit Tokenizer(const std::filesystem::path& vocabulary);

  /// [CLS], the text's ids, [SEP]; cut to `max_length` (at least 2) with the [SEP] kept. Bytes that
  /// are not UTF-8 are dropped. A special token's name in the text becomes that token, as with
  /// Hugging Face.
  std::vector<int64_t> encode(std::string_view text, size_t max_length = kMaxLength) const;

  struct Batch {
    at::Tensor ids;   ///< int64 [texts, length]
    at::Tensor mask;  ///< int64 [texts, length]: 1 = a token, 0 = padding
  };
  /// All texts, padded to `length`, or to the longest of them when it is 0.
  Batch batch(std::span<const std::string_view> texts, size_t length = 0) const;

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  void add_text(std::string_view text, size_t enough, std::vector<int64_t>& ids) const;
  void add_word(std::u32string_view word, std::vector<int64_t>& ids) const;
  int64_t special(const char* token, const std::filesystem::path& file) const;

  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> vocabulary_;
  int64_t unknown_ = 0, begin_ = 0, end_ = 0, padding_ = 0;
};

/// The words that WordPiece then splits: lower case, without accents; each punctuation mark and CJK
/// ideograph is a word of its own.
std::vector<std::u32string> split_words(std::string_view utf8);

/// The bytes before the first that is not UTF-8; all of them if there is none.
size_t valid_utf8(std::string_view text);

}  // namespace graft::workloads::minilm
