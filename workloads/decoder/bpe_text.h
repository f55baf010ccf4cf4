// Parts of a tokenizer.json that change or cut text: normalizers, pre-tokenizers, decoders.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace graft::workloads::decoder {

using Pieces = std::vector<std::string>;
using Normalize = std::function<std::string(std::string)>;
/// Pieces that are not merged across. `begins`: the first one begins the text.
using Cut = std::function<Pieces(Pieces, bool begins)>;
using Join = std::function<Pieces(Pieces)>;  ///< of tokens' texts; all joined are the text

// Each takes the part's JSON, which may be null: nothing is done then. They throw
// std::runtime_error with `where` and the type that is not known.
Normalize normalizer(const nlohmann::json& part, const std::string& where);
Cut pre_tokenizer(const nlohmann::json& part, const std::string& where);
Join token_decoder(const nlohmann::json& part, const std::string& where);

/// One Unicode character each: the first byte's length; malformed bytes stand alone.
std::vector<std::string_view> characters(std::string_view utf8);

}  // namespace graft::workloads::decoder
