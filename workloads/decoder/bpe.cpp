#include "workloads/decoder/bpe.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <queue>
#include <set>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "formats/files.h"
#include "workloads/decoder/bpe_text.h"
#include "workloads/minilm/tokenizer.h"

namespace graft::workloads::decoder {
namespace {

using nlohmann::json;

/// Text between two added tokens, or one of these.
struct Part {
  std::string_view text;
  int64_t token = -1;
};

}  // namespace

struct BpeTokenizer::State {
  struct Merge {
    int64_t rank = 0, into = 0;
  };

  struct PairHash {
    size_t operator()(const std::pair<int64_t, int64_t>& pair) const {
      return std::hash<int64_t>()(pair.first * 0x9E3779B97F4A7C15LL ^ pair.second);
    }
  };

  std::string where;
  std::unordered_map<std::string, int64_t> ids;
  std::unordered_map<int64_t, std::string> texts;
  std::unordered_map<std::pair<int64_t, int64_t>, Merge, PairHash> merges;
  std::map<std::string, int64_t, std::greater<>>
      added;  ///< the longest of two that begin alike first
  std::set<int64_t> special;
  Normalize normalize;
  Cut cut;
  Join join;
  bool byte_fallback = false, fuse_unknown = false, ignore_merges = false;
  int64_t unknown = -1;
  std::vector<int64_t> before, behind;  ///< around every text
  int64_t size = 0;

  [[noreturn]] void refuse(const std::string& what) const {
    throw std::runtime_error(where + ": " + what);
  }
  int64_t id_of(const std::string& token, const char* what) const {
    const auto found = ids.find(token);
    if (found == ids.end()) refuse(std::string(what) + " '" + token + "' is not in the vocabulary");
    return found->second;
  }

  void read_vocabulary(const json& model) {
    for (const auto& [token, id] : model.at("vocab").items()) {
      ids.emplace(token, id.get<int64_t>());
      if (!texts.emplace(id.get<int64_t>(), token).second)
        refuse("two tokens have the id " + std::to_string(id.get<int64_t>()));
    }
    int64_t rank = 0;
    for (const json& merge : model.at("merges")) {
      std::string left, right;
      if (merge.is_array() && merge.size() == 2) {
        left = merge[0].get<std::string>(), right = merge[1].get<std::string>();
      } else {
        const auto text = merge.get<std::string>();
        const size_t space = text.find(' ');
        if (space == std::string::npos) refuse("the merge '" + text + "' is not two tokens");
        left = text.substr(0, space), right = text.substr(space + 1);
      }
      const std::pair pair(id_of(left, "a merge's"), id_of(right, "a merge's"));
      merges.emplace(pair, Merge{rank++, id_of(left + right, "a merge's result")});
    }
  }

  void read_model(const json& model) {
    const auto type = model.value("type", std::string("BPE"));
    if (type != "BPE")
      refuse("the model is of type '" + type + "'; this reader knows BPE (of Llama and Qwen2)");
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (model.contains(key) && !model.at(key).is_null() &&
          !model.at(key).get<std::string>().empty())
        refuse(std::string("the model has a ") + key + ", which this reader does not know");
    if (model.contains("dropout") && !model.at("dropout").is_null())
      refuse("the model has a dropout, so that ids would be random");
    read_vocabulary(model);
    byte_fallback = model.value("byte_fallback", false);
    fuse_unknown = model.value("fuse_unk", false);
    ignore_merges = model.value("ignore_merges", false);
    if (model.contains("unk_token") && model.at("unk_token").is_string())
      unknown = id_of(model.at("unk_token").get<std::string>(), "the unknown token");
    if (byte_fallback)
      for (int byte = 0; byte < 256; ++byte) (void)id_of(byte_token(byte), "the byte");
  }

  static std::string byte_token(int byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    return name;
  }

  void read_added(const json& tokens, bool normalizes) {
    for (const json& token : tokens) {
      const auto content = token.at("content").get<std::string>();
      const auto id = token.at("id").get<int64_t>();
      for (const char* key : {"lstrip", "rstrip", "single_word"})
        if (token.value(key, false))
          refuse("the added token '" + content + "' has " + key +
                 ", which this reader does not know");
      if (token.value("normalized", false) && normalizes)
        refuse("the added token '" + content +
               "' is normalized first, which this reader does not know");
      added[content] = id;
      texts[id] = content;
      if (token.value("special", false)) special.insert(id);
    }
  }

  void read_template(const json& part) {
    if (part.is_null()) return;
    const auto type = part.at("type").get<std::string>();
    if (type == "ByteLevel") return;  // it moves offsets only
    if (type == "Sequence") {
      for (const json& each : part.at("processors")) read_template(each);
      return;
    }
    if (type != "TemplateProcessing")
      refuse("a post-processor of type '" + type + "', which this reader does not know");
    bool seen = false;
    for (const json& piece : part.at("single")) {
      if (piece.contains("Sequence")) {
        seen = true;
        continue;
      }
      const auto name = piece.at("SpecialToken").at("id").get<std::string>();
      for (const json& id : part.at("special_tokens").at(name).at("ids"))
        (seen ? behind : before).push_back(id.get<int64_t>());
    }
  }

  std::vector<Part> parts(std::string_view text) const {
    std::vector<Part> out;
    size_t from = 0;
    for (size_t at = 0; at < text.size();) {
      const auto found = std::find_if(added.begin(), added.end(), [&](const auto& token) {
        return !token.first.empty() && text.substr(at).starts_with(token.first);
      });
      if (found == added.end()) {
        ++at;
        continue;
      }
      if (at > from) out.push_back({text.substr(from, at - from)});
      out.push_back({{}, found->second});
      from = at += found->first.size();
    }
    if (from < text.size()) out.push_back({text.substr(from)});
    return out;
  }

  /// A piece's characters, or their bytes, as tokens.
  std::vector<int64_t> symbols(const std::string& piece) const {
    std::vector<int64_t> out;
    bool was_unknown = false;
    for (const std::string_view character : characters(piece)) {
      const auto found = ids.find(std::string(character));
      const bool known = found != ids.end();
      if (known) {
        out.push_back(found->second);
      } else if (byte_fallback) {
        for (const char c : character)
          out.push_back(ids.at(byte_token(static_cast<unsigned char>(c))));
      } else if (unknown >= 0) {
        if (!(fuse_unknown && was_unknown)) out.push_back(unknown);
      } else {
        refuse("there is no token for '" + std::string(character) + "', and none for unknown ones");
      }
      was_unknown = !known && !byte_fallback;
    }
    return out;
  }

  /// Merges neighbours, the pair of the lowest rank first, the first of equals.
  void encode_piece(const std::string& piece, std::vector<int64_t>& out) const {
    if (ignore_merges)
      if (const auto whole = ids.find(piece); whole != ids.end())
        return out.push_back(whole->second);
    struct Symbol {
      int64_t id;
      size_t before, behind;
    };
    const std::vector<int64_t> tokens = symbols(piece);
    const size_t none = tokens.size();
    std::vector<Symbol> all;
    for (size_t i = 0; i < tokens.size(); ++i)
      all.push_back({tokens[i], i == 0 ? none : i - 1, i + 1});
    struct Candidate {
      int64_t rank;
      size_t at;
      int64_t left, right, into;
      bool operator>(const Candidate& other) const {
        return std::pair(rank, at) > std::pair(other.rank, other.at);
      }
    };
    std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
    const auto consider = [&](size_t left) {
      if (left == none || all[left].behind == none) return;
      const int64_t a = all[left].id, b = all[all[left].behind].id;
      if (const auto found = merges.find({a, b}); found != merges.end())
        queue.push({found->second.rank, left, a, b, found->second.into});
    };
    for (size_t i = 0; i + 1 < all.size(); ++i) consider(i);
    while (!queue.empty()) {
      const Candidate best = queue.top();
      queue.pop();
      Symbol& left = all[best.at];
      if (left.id != best.left || left.behind == none || all[left.behind].id != best.right)
        continue;  // it was merged meanwhile
      Symbol& right = all[left.behind];
      right.id = -1;
      left.id = best.into;
      left.behind = right.behind;
      if (left.behind != none) all[left.behind].before = best.at;
      consider(left.before);
      consider(best.at);
    }
    for (const Symbol& symbol : all)
      if (symbol.id >= 0) out.push_back(symbol.id);
  }
};

BpeTokenizer::BpeTokenizer(const std::filesystem::path& file) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.where = file.string();
  const json all = formats::read_json(file);
  try {
    if (!all.is_object() || !all.contains("model"))
      s.refuse("has no model; expected a tokenizer.json of Hugging Face's tokenizers");
    const auto part = [&](const char* name) { return all.contains(name) ? all.at(name) : json(); };
    for (const char* key : {"truncation", "padding"})
      if (!part(key).is_null())
        s.refuse(std::string("has a ") + key + ", which this reader does not know");
    s.read_model(all.at("model"));
    if (all.contains("added_tokens"))
      s.read_added(all.at("added_tokens"), !part("normalizer").is_null());
    s.normalize = normalizer(part("normalizer"), s.where);
    s.cut = pre_tokenizer(part("pre_tokenizer"), s.where);
    s.join = token_decoder(part("decoder"), s.where);
    s.read_template(part("post_processor"));
  } catch (const json::exception& error) {
    s.refuse(std::string("is not as Hugging Face's tokenizers write it: ") + error.what());
  }
  for (const auto& [id, text] : s.texts) s.size = std::max(s.size, id + 1);
}
BpeTokenizer::~BpeTokenizer() = default;
BpeTokenizer::BpeTokenizer(BpeTokenizer&& other) noexcept = default;
BpeTokenizer& BpeTokenizer::operator=(BpeTokenizer&& other) noexcept = default;

int64_t BpeTokenizer::vocabulary() const {
  return state_->size;
}

std::vector<int64_t> BpeTokenizer::encode(std::string_view text) const {
  if (const size_t valid = minilm::valid_utf8(text); valid < text.size())
    throw std::runtime_error("the text is not UTF-8 at byte " + std::to_string(valid) +
                             "; convert it first");
  std::vector<int64_t> out = state_->before;
  for (const Part& part : state_->parts(text)) {
    if (part.token >= 0) {
      out.push_back(part.token);
      continue;
    }
    const bool begins = part.text.data() == text.data();
    for (const std::string& piece :
         state_->cut({state_->normalize(std::string(part.text))}, begins))
      if (!piece.empty()) state_->encode_piece(piece, out);
  }
  out.insert(out.end(), state_->behind.begin(), state_->behind.end());
  return out;
}

std::string BpeTokenizer::decode(std::span<const int64_t> ids) const {
  Pieces pieces;
  for (const int64_t id : ids) {
    const auto found = state_->texts.find(id);
    if (found == state_->texts.end())
      state_->refuse("has no token of the id " + std::to_string(id) + "; its ids end at " +
                     std::to_string(state_->size - 1));
    if (!state_->special.contains(id)) pieces.push_back(found->second);
  }
  std::string all, out;
  for (const std::string& piece : state_->join(std::move(pieces))) all += piece;
  for (std::string_view left = all; !left.empty();) {
    const size_t valid = minilm::valid_utf8(left);
    out += left.substr(0, valid);
    left.remove_prefix(valid);
    if (left.empty()) break;
    // What begins a character is replaced as one, as far as it goes.
    out += "\xEF\xBF\xBD";
    const auto lead = static_cast<unsigned char>(left[0]);
    const size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC2 ? 2 : 1;
    size_t taken = 1;
    while (taken < size && taken < left.size() && (left[taken] & 0xC0) == 0x80) ++taken;
    left.remove_prefix(taken);
  }
  return out;
}

}  // namespace graft::workloads::decoder
