// The files beside the weights: those that describe the quantised model, and those that are copied.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "quantizer/model/layer.h"

namespace graft::quantizer {

/// config.json's `quantization_config` as compressed-tensors reads it. `ignore`: the linear layers
/// that are not quantised. `scattered`: groups are not runs of columns, so there is a weight_g_idx.
nlohmann::ordered_json quantization_config(const Settings& settings,
                                           const std::vector<std::string>& ignore, bool scattered);

/// Writes `model.safetensors.index.json`: which tensor is in which shard, and their total size.
void write_index(const std::filesystem::path& out, const std::map<std::string, std::string>& shards,
                 int64_t bytes);

/// Copies the tokenizer's and other small files of the model's folder and its subfolders: text,
/// JSON, templates, licences, but not config.json, the index, or weights in any form. Returns how
/// many.
int64_t copy_companions(const std::filesystem::path& model, const std::filesystem::path& out);

/// Writes config.json: the source's, with a quantization_config.
void write_config(const std::filesystem::path& model, const std::filesystem::path& out,
                  const nlohmann::ordered_json& quantization);

}  // namespace graft::quantizer
