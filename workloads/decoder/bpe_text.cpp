#include "workloads/decoder/bpe_text.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <utf8proc.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <unordered_map>

#include "workloads/minilm/tokenizer.h"

namespace graft::workloads::decoder {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw std::runtime_error(where + ": " + what);
}

std::string type_of(const json& part, const std::string& where) {
  if (!part.is_object() || !part.contains("type") || !part.at("type").is_string())
    refuse(where, "has no type");
  return part.at("type").get<std::string>();
}

/// Of a sequence's parts, or of the part itself.
template <class Part, class Read>
std::vector<Part> parts_of(const json& part, const char* list, const std::string& where,
                           const Read& read) {
  std::vector<Part> out;
  if (part.is_null()) return out;
  if (type_of(part, where) != "Sequence") return {read(part)};
  for (const json& each : part.at(list)) {
    if (type_of(each, where) == "Sequence") refuse(where, "a Sequence within a Sequence");
    out.push_back(read(each));
  }
  return out;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  if (from.empty()) return text;
  std::string out;
  size_t at = 0;
  for (size_t found = text.find(from); found != std::string::npos; found = text.find(from, at)) {
    out.append(text, at, found - at).append(to);
    at = found + from.size();
  }
  return out.append(text, at);
}

/// A pattern's {"String": …} or {"Regex": …}.
class Pattern {
 public:
  Pattern(const json& part, const std::string& where) {
    if (part.contains("String")) {
      text_ = part.at("String").get<std::string>();
      if (text_.empty()) refuse(where, "an empty pattern");
      return;
    }
    if (!part.contains("Regex")) refuse(where, "a pattern that is neither String nor Regex");
    compile(part.at("Regex").get<std::string>(), where);
  }
  explicit Pattern(const std::string& regex) { compile(regex, "ByteLevel"); }

  /// Calls visit(from, to, is_match) for all of the text, in order.
  template <class Visit>
  void walk(std::string_view text, const Visit& visit) const {
    size_t at = 0;
    const auto match = [&](size_t from, size_t to) {
      if (from > at) visit(at, from, false);
      if (to > from) visit(from, to, true);
      at = to;
    };
    if (!code_) {
      for (size_t found = text.find(text_); found != std::string_view::npos;
           found = text.find(text_, at))
        match(found, found + text_.size());
    } else {
      const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data(
          pcre2_match_data_create_from_pattern(code_.get(), nullptr), pcre2_match_data_free);
      const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
      for (size_t from = 0; from <= text.size();) {
        const int found = pcre2_match(code_.get(), subject, text.size(), from, PCRE2_NO_UTF_CHECK,
                                      data.get(), nullptr);  // it was checked
        if (found == PCRE2_ERROR_NOMATCH) break;
        if (found < 0) throw std::runtime_error("the tokenizer's pattern failed on this text");
        const PCRE2_SIZE* place = pcre2_get_ovector_pointer(data.get());
        match(place[0], place[1]);
        from = place[1];
        if (place[1] == place[0])
          from += characters(text.substr(from, 4)).empty()
                      ? 1
                      : characters(text.substr(from, 4)).front().size();
      }
    }
    if (at < text.size()) visit(at, text.size(), false);
  }

  const std::string& text() const { return text_; }
  bool is_regex() const { return code_ != nullptr; }

 private:
  void compile(const std::string& regex, const std::string& where) {
    int error = 0;
    PCRE2_SIZE place = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(regex.data()), regex.size(),
                              PCRE2_UTF | PCRE2_UCP, &error, &place, nullptr),
                pcre2_code_free);
    if (!code_) {
      std::array<PCRE2_UCHAR, 200> why{};
      pcre2_get_error_message(error, why.data(), why.size());
      refuse(where, "the pattern '" + regex + "' is not understood at " + std::to_string(place) +
                        ": " + reinterpret_cast<const char*>(why.data()));
    }
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // where it can; it runs all the same
  }

  std::string text_;
  std::shared_ptr<pcre2_code> code_;
};

Normalize unicode(utf8proc_option_t how) {
  return [how](const std::string& text) {
    utf8proc_uint8_t* made = nullptr;
    const utf8proc_ssize_t size =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                     static_cast<utf8proc_ssize_t>(text.size()), &made,
                     static_cast<utf8proc_option_t>(UTF8PROC_STABLE | how));
    if (size < 0) throw std::runtime_error(utf8proc_errmsg(size));
    std::string out(reinterpret_cast<const char*>(made), static_cast<size_t>(size));
    std::free(made);  // NOLINT: utf8proc's malloc
    return out;
  };
}

Normalize one_normalizer(const json& part, const std::string& where) {
  const std::string type = type_of(part, where);
  const auto option = [](int bits) { return static_cast<utf8proc_option_t>(bits); };
  if (type == "NFC") return unicode(UTF8PROC_COMPOSE);
  if (type == "NFD") return unicode(UTF8PROC_DECOMPOSE);
  if (type == "NFKC") return unicode(option(UTF8PROC_COMPOSE | UTF8PROC_COMPAT));
  if (type == "NFKD") return unicode(option(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT));
  if (type == "Prepend")
    return [before = part.at("prepend").get<std::string>()](const std::string& text) {
      return text.empty() ? text : before + text;
    };
  if (type == "Replace")
    return [pattern = Pattern(part.at("pattern"), where),
            to = part.at("content").get<std::string>()](const std::string& text) {
      if (!pattern.is_regex()) return replaced(text, pattern.text(), to);
      std::string out;
      pattern.walk(text, [&](size_t from, size_t end, bool is_match) {
        out += is_match ? to : text.substr(from, end - from);
      });
      return out;
    };
  refuse(where, "a normalizer of type '" + type + "', which this reader does not know");
}

/// GPT-2's letters for bytes: those that can be seen stand for themselves, others for U+0100 on.
const std::array<std::string, 256>& letters_of_bytes() {
  static const std::array<std::string, 256> letters = [] {
    std::array<std::string, 256> made;
    int next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool seen =
          (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      const int code = seen ? byte : next++;
      std::string& letter = made[static_cast<size_t>(byte)];
      if (code < 0x80) {
        letter = static_cast<char>(code);
      } else {
        letter = static_cast<char>(0xC0 | code >> 6);
        letter += static_cast<char>(0x80 | (code & 0x3F));
      }
    }
    return made;
  }();
  return letters;
}

constexpr const char* kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

Cut each(std::function<void(const std::string& piece, bool first, Pieces& out)> cut) {
  return [cut = std::move(cut)](const Pieces& pieces, bool begins) {
    Pieces out;
    for (size_t i = 0; i < pieces.size(); ++i) cut(pieces[i], begins && i == 0, out);
    return out;
  };
}

Cut split_at(const Pattern& pattern, const std::string& behavior, bool invert,
             const std::string& where) {
  const bool removes = behavior == "Removed", before = behavior == "MergedWithPrevious",
             behind = behavior == "MergedWithNext", together = behavior == "Contiguous";
  if (!removes && !before && !behind && !together && behavior != "Isolated")
    refuse(where, "a Split with behavior '" + behavior + "', which this reader does not know");
  return each([=](const std::string& piece, bool, Pieces& out) {
    bool last_was_match = false, any = false;
    pattern.walk(piece, [&](size_t from, size_t to, bool found) {
      const bool is_match = found != invert;
      const std::string text = piece.substr(from, to - from);
      const bool joins = any && ((before && is_match && !last_was_match) ||
                                 (behind && !is_match && last_was_match) ||
                                 (together && is_match == last_was_match));
      if (!(removes && is_match)) {
        if (joins)
          out.back() += text;
        else
          out.push_back(text);
        any = true;
      }
      last_was_match = is_match;
    });
  });
}

Cut byte_level(const json& part) {
  const bool space = part.value("add_prefix_space", true), cuts = part.value("use_regex", true);
  const Pattern words(kGpt2Words);
  return each([=](const std::string& piece, bool, Pieces& out) {
    const std::string text = space && !piece.starts_with(' ') ? ' ' + piece : piece;
    const auto add = [&](std::string_view word) {
      std::string letters;
      for (const char c : word) letters += letters_of_bytes()[static_cast<unsigned char>(c)];
      out.push_back(std::move(letters));
    };
    if (!cuts) return add(text);
    words.walk(text, [&](size_t from, size_t to, bool) {
      add(std::string_view(text).substr(from, to - from));
    });
  });
}

Cut metaspace(const json& part, const std::string& where) {
  const std::string mark = part.at("replacement").get<std::string>(),
                    scheme = part.contains("prepend_scheme")
                                 ? part.at("prepend_scheme").get<std::string>()
                             : part.value("add_prefix_space", true) ? "always"
                                                                    : "never";
  if (scheme != "always" && scheme != "never" && scheme != "first")
    refuse(where, "a Metaspace with prepend_scheme '" + scheme + "'");
  const bool cuts = part.value("split", true);
  return each([=](const std::string& piece, bool first, Pieces& out) {
    std::string text = replaced(piece, " ", mark);
    if ((scheme == "always" || (scheme == "first" && first)) && !text.starts_with(mark))
      text = mark + text;
    if (!cuts) return out.push_back(text);
    for (size_t from = 0; from < text.size();) {
      const size_t next = text.find(mark, from + 1);
      out.push_back(text.substr(from, next - from));
      from = next == std::string::npos ? text.size() : next;
    }
  });
}

Cut one_pre_tokenizer(const json& part, const std::string& where) {
  const std::string type = type_of(part, where);
  if (type == "ByteLevel") return byte_level(part);
  if (type == "Metaspace") return metaspace(part, where);
  if (type == "Split")
    return split_at(Pattern(part.at("pattern"), where), part.at("behavior").get<std::string>(),
                    part.value("invert", false), where);
  if (type == "Digits")
    return split_at(Pattern(part.value("individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)"),
                    "Isolated", false, where);
  refuse(where, "a pre-tokenizer of type '" + type + "', which this reader does not know");
}

std::string bytes_of_letters(std::string_view letters) {
  static const auto bytes = [] {
    std::unordered_map<std::string_view, char> made;
    for (int byte = 0; byte < 256; ++byte)
      made.emplace(letters_of_bytes()[static_cast<size_t>(byte)], static_cast<char>(byte));
    return made;
  }();
  std::string out;
  for (const std::string_view letter : characters(letters)) {
    const auto found = bytes.find(letter);
    if (found == bytes.end()) return std::string(letters);  // it is plain text
    out += found->second;
  }
  return out;
}

/// "<0x0A>" is a newline.
bool is_byte_token(const std::string& token, char& byte) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return false;
  char* end = nullptr;
  byte = static_cast<char>(std::strtol(token.substr(3, 2).c_str(), &end, 16));
  return *end == '\0';
}

std::string without(std::string text, const std::string& what, int64_t start, int64_t stop) {
  for (; start > 0 && text.starts_with(what); --start) text.erase(0, what.size());
  for (; stop > 0 && text.ends_with(what); --stop) text.erase(text.size() - what.size());
  return text;
}

Join one_decoder(const json& part, const std::string& where) {
  const std::string type = type_of(part, where);
  const auto on_each = [](std::function<std::string(const std::string&)> f) -> Join {
    return [f = std::move(f)](Pieces pieces) {
      for (std::string& piece : pieces) piece = f(piece);
      return pieces;
    };
  };
  if (type == "ByteLevel")
    return on_each([](const std::string& piece) { return bytes_of_letters(piece); });
  if (type == "ByteFallback")
    return [](const Pieces& pieces) {
      Pieces out;
      std::string run;  // of bytes: text, or as many replacement characters
      const auto end_run = [&] {
        if (run.empty()) return;
        if (minilm::valid_utf8(run) == run.size())
          out.push_back(run);
        else
          for (size_t i = 0; i < run.size(); ++i) out.emplace_back("\xEF\xBF\xBD");
        run.clear();
      };
      for (const std::string& piece : pieces) {
        char byte = 0;
        if (is_byte_token(piece, byte)) {
          run += byte;
          continue;
        }
        end_run();
        out.push_back(piece);
      }
      end_run();
      return out;
    };
  if (type == "Replace") {
    const Normalize replace = one_normalizer(part, where);
    return on_each(replace);
  }
  if (type == "Fuse")
    return [](const Pieces& pieces) {
      std::string all;
      for (const std::string& piece : pieces) all += piece;
      return Pieces{all};
    };
  if (type == "Strip")
    return on_each([what = part.at("content").get<std::string>(), start = part.value("start", 0),
                    stop = part.value("stop", 0)](const std::string& piece) {
      return without(piece, what, start, stop);
    });
  if (type == "Metaspace") {
    const std::string mark = part.at("replacement").get<std::string>();
    const bool prepends = part.value("prepend_scheme", std::string("always")) != "never";
    return [mark, prepends](Pieces pieces) {
      for (size_t i = 0; i < pieces.size(); ++i) {
        pieces[i] = replaced(pieces[i], mark, i == 0 && prepends ? "" : " ");
      }
      return pieces;
    };
  }
  refuse(where, "a decoder of type '" + type + "', which this reader does not know");
}

/// All of them, one after another.
template <class F, class T>
T through(const std::vector<F>& all, T value) {
  for (const F& f : all) value = f(std::move(value));
  return value;
}

}  // namespace

std::vector<std::string_view> characters(std::string_view utf8) {
  std::vector<std::string_view> out;
  for (size_t at = 0; at < utf8.size();) {
    const auto lead = static_cast<unsigned char>(utf8[at]);
    size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    size = std::min(size, utf8.size() - at);
    out.push_back(utf8.substr(at, size));
    at += size;
  }
  return out;
}

Normalize normalizer(const json& part, const std::string& where) {
  const auto all = parts_of<Normalize>(part, "normalizers", where,
                                       [&](const json& one) { return one_normalizer(one, where); });
  return [all](std::string text) { return through(all, std::move(text)); };
}

Cut pre_tokenizer(const json& part, const std::string& where) {
  const auto all = parts_of<Cut>(part, "pretokenizers", where,
                                 [&](const json& one) { return one_pre_tokenizer(one, where); });
  return [all](Pieces pieces, bool begins) {
    for (const Cut& cut : all) pieces = cut(std::move(pieces), begins);
    return pieces;
  };
}

Join token_decoder(const json& part, const std::string& where) {
  const auto all = parts_of<Join>(part, "decoders", where,
                                  [&](const json& one) { return one_decoder(one, where); });
  return [all](Pieces pieces) { return through(all, std::move(pieces)); };
}

}  // namespace graft::workloads::decoder
