// split_words: the part of the tokenizer that knows Unicode. Follows BertNormalizer and
// BertPreTokenizer of Hugging Face's tokenizers: clean, set ideographs apart, decompose, drop
// accents, lower, split at spaces and punctuation.

#include <algorithm>
#include <array>
#include <iterator>

#include "workloads/minilm/tokenizer.h"

namespace graft::workloads::minilm {
namespace {

struct CodeRange {
  char32_t first, last;
};
#include "workloads/minilm/unicode_tables.inc"

template <size_t N>
bool is_in(const CodeRange (&ranges)[N], char32_t c) {
  const auto after =
      std::upper_bound(std::begin(ranges), std::end(ranges), c,
                       [](char32_t code, const CodeRange& range) { return code < range.first; });
  return after != std::begin(ranges) && c <= std::prev(after)->last;
}

constexpr CodeRange kIdeographs[] = {
    // BERT's own list
    {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},   {0x20000, 0x2A6DF},
    {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F},
};

bool is_space(char32_t c) {
  return c == ' ' || (c >= '\t' && c <= '\r') || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_punctuation(char32_t c) {
  // ASCII's symbols count as punctuation, Unicode's do not.
  const bool ascii = (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
                     (c >= '{' && c <= '~');
  return ascii || is_in(kPunctuation, c);
}

// Decomposed, lower case; a mark alone is nothing.
char32_t fold(char32_t c) {
  constexpr size_t kPairs = (std::size(kFolds) - 1) / 2;
  size_t low = 0, high = kPairs;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    (kFolds[2 * middle] < c ? low = middle + 1 : high = middle);
  }
  return low < kPairs && kFolds[2 * low] == c ? kFolds[2 * low + 1] : c;
}

constexpr char32_t kInvalid = 0xFFFD;

// Takes one code point off the front; `kInvalid` for a byte that starts none.
char32_t take_code(std::string_view& text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  size_t length = 1;
  char32_t code = first;
  if (first >= 0x80) {
    length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    code = first & (0x7F >> length);
    bool good = first >= 0xC2 && first <= 0xF4 && text.size() >= length;
    for (size_t i = 1; good && i < length; ++i) {
      good = (byte(i) & 0xC0) == 0x80;
      code = code << 6 | (byte(i) & 0x3F);
    }
    // Overlong forms, surrogates, and what lies beyond Unicode.
    constexpr std::array<char32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
    good =
        good && code >= kLeast[length] && code <= 0x10FFFF && !(code >= 0xD800 && code <= 0xDFFF);
    if (!good) length = 1, code = kInvalid;
  }
  text.remove_prefix(length);
  return code;
}

class Splitter {
 public:
  void add(char32_t c) {
    if (c == 0 || c == kInvalid ||
        (is_in(kInvisibleCodes, c) && c != '\t' && c != '\n' && c != '\r'))
      return;
    if (is_space(c)) {
      finish();
    } else if (is_in(kIdeographs, c)) {
      alone(c);
    } else if (c >= 0xAC00 && c <= 0xD7A3) {
      add_hangul(c - 0xAC00);
    } else if (!is_in(kNonspacingMarks, c)) {
      const char32_t folded = fold(c);
      is_punctuation(folded) ? alone(folded) : word_.push_back(folded);
    }
  }
  void finish() {
    if (!word_.empty()) words_.push_back(std::move(word_));
    word_.clear();
  }
  std::vector<std::u32string> take() { return std::move(words_); }

 private:
  void alone(char32_t c) {
    finish();
    words_.emplace_back(1, c);
  }
  // A syllable is a lead, a vowel and perhaps a tail: Unicode's arithmetic for them.
  void add_hangul(char32_t syllable) {
    word_.push_back(0x1100 + syllable / (21 * 28));
    word_.push_back(0x1161 + syllable / 28 % 21);
    if (syllable % 28 != 0) word_.push_back(0x11A7 + syllable % 28);
  }

  std::u32string word_;
  std::vector<std::u32string> words_;
};

}  // namespace

std::vector<std::u32string> split_words(std::string_view utf8) {
  Splitter splitter;
  while (!utf8.empty()) splitter.add(take_code(utf8));
  splitter.finish();
  return splitter.take();
}

size_t valid_utf8(std::string_view text) {
  const size_t all = text.size();
  while (!text.empty()) {
    const size_t left = text.size();
    // The replacement character itself takes three bytes.
    if (take_code(text) == kInvalid && left - text.size() == 1) return all - left;
  }
  return all;
}

}  // namespace graft::workloads::minilm
