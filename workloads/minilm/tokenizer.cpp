#include "workloads/minilm/tokenizer.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <fstream>
#include <stdexcept>

namespace graft::workloads::minilm {
namespace {

constexpr size_t kMaxWordLength = 100;  // longer ones are unknown, as with Hugging Face
constexpr size_t kMaxTokens = 10'000'000;
constexpr std::string_view kSpecialTokens[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

[[noreturn]] void bad_vocabulary(const std::filesystem::path& file, const std::string& what) {
  throw std::runtime_error(file.string() + ": " + what);
}

void append_utf8(char32_t c, std::string& out) {
  const auto tail = [&](int shift) {
    out.push_back(static_cast<char>(0x80 | (c >> shift & 0x3F)));
  };
  if (c < 0x80) {
    out.push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out.push_back(static_cast<char>(0xC0 | c >> 6));
    tail(0);
  } else if (c < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | c >> 12));
    tail(6), tail(0);
  } else {
    out.push_back(static_cast<char>(0xF0 | c >> 18));
    tail(12), tail(6), tail(0);
  }
}

}  // namespace

Tokenizer::Tokenizer(const std::filesystem::path& vocabulary) {
  std::ifstream in(vocabulary);
  if (!in)
    bad_vocabulary(vocabulary, "cannot be opened; expected a vocabulary, one token per line");
  std::string line;
  while (std::getline(in, line)) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    const size_t id = vocabulary_.size();
    if (id == kMaxTokens)
      bad_vocabulary(vocabulary, "has more than " + std::to_string(kMaxTokens) + " lines");
    if (!vocabulary_.emplace(line, id).second) {
      bad_vocabulary(vocabulary, "line " + std::to_string(id + 1) +
                                     " is a token seen before; expected each once");
    }
  }
  unknown_ = special("[UNK]", vocabulary);
  begin_ = special("[CLS]", vocabulary);
  end_ = special("[SEP]", vocabulary);
  padding_ = special("[PAD]", vocabulary);
}

int64_t Tokenizer::special(const char* token, const std::filesystem::path& file) const {
  const auto found = vocabulary_.find(std::string_view(token));
  if (found == vocabulary_.end())
    bad_vocabulary(file, std::string("has no ") + token + "; is it BERT's vocabulary?");
  return found->second;
}

std::vector<int64_t> Tokenizer::encode(std::string_view text, size_t max_length) const {
  std::vector<int64_t> ids = {begin_};
  while (!text.empty() && ids.size() < max_length) {
    // Up to the next special token, if any.
    size_t at = text.npos;
    std::string_view token;
    for (std::string_view candidate : kSpecialTokens) {
      const size_t found = text.find(candidate);
      if (found < at) at = found, token = candidate;
    }
    add_text(text.substr(0, at), max_length, ids);
    if (at == text.npos) break;
    const auto id = vocabulary_.find(token);
    ids.push_back(id == vocabulary_.end() ? unknown_ : id->second);
    text.remove_prefix(at + token.size());
  }
  if (ids.size() + 1 > max_length) ids.resize(std::max<size_t>(max_length, 2) - 1);
  ids.push_back(end_);
  return ids;
}

Tokenizer::Batch Tokenizer::batch(std::span<const std::string_view> texts, size_t length) const {
  std::vector<std::vector<int64_t>> rows;
  size_t longest = 0;
  for (std::string_view text : texts) {
    rows.push_back(encode(text, length == 0 ? kMaxLength : length));
    longest = std::max(longest, rows.back().size());
  }
  const auto height = static_cast<int64_t>(rows.size());
  const auto width = static_cast<int64_t>(length == 0 ? longest : std::max(length, longest));
  Batch out = {at::full({height, width}, padding_, at::kLong),
               at::zeros({height, width}, at::kLong)};
  for (size_t i = 0; i < rows.size(); ++i) {
    std::copy(rows[i].begin(), rows[i].end(), out.ids.data_ptr<int64_t>() + i * width);
    std::fill_n(out.mask.data_ptr<int64_t>() + i * width, rows[i].size(), 1);
  }
  return out;
}

// A piece at a time, so that of a long text only what is asked for takes memory. A space ends a
// word, so that the text may be cut there.
void Tokenizer::add_text(std::string_view text, size_t enough, std::vector<int64_t>& ids) const {
  constexpr size_t kPiece = 1 << 16;
  while (!text.empty() && ids.size() < enough) {
    const size_t end = std::min(text.find_first_of(" \t\n", kPiece), text.size());
    for (const std::u32string& word : split_words(text.substr(0, end))) add_word(word, ids);
    text.remove_prefix(end);
  }
}

// Greedy: the longest piece that the vocabulary has, again and again; a word with a gap is unknown
// as a whole.
void Tokenizer::add_word(std::u32string_view word, std::vector<int64_t>& ids) const {
  if (word.size() > kMaxWordLength) {
    ids.push_back(unknown_);
    return;
  }
  const size_t before = ids.size();
  size_t start = 0;
  while (start < word.size()) {
    std::string piece = start == 0 ? "" : "##";
    int64_t best = -1;
    size_t best_end = start;
    for (size_t end = start; end < word.size();) {
      append_utf8(word[end++], piece);
      const auto found = vocabulary_.find(std::string_view(piece));
      if (found != vocabulary_.end()) best = found->second, best_end = end;
    }
    if (best < 0) {
      ids.resize(before);
      ids.push_back(unknown_);
      return;
    }
    ids.push_back(best);
    start = best_end;
  }
}

}  // namespace graft::workloads::minilm
