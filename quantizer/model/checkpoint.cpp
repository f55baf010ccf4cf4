// Headers are read and checked once; each read maps its shards anew.
#include "quantizer/model/checkpoint.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "formats/files.h"
#include "quantizer/model/checksum.h"
#include "quantizer/model/error.h"

namespace graft::quantizer {
namespace {

using at::Tensor;
namespace fs = std::filesystem;

constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kSingle = "model.safetensors";

// The names of an index's shards. formats::read_checkpoint has checked its form.
std::set<std::string> shards_of(const fs::path& index) {
  const nlohmann::json json = formats::read_json(index);
  std::set<std::string> out;
  for (const nlohmann::json& shard : json.at("weight_map")) out.insert(shard.get<std::string>());
  return out;
}

}  // namespace

int64_t Checkpoint::Entry::numel() const {
  return c10::multiply_integers(shape);
}

int64_t Checkpoint::Entry::bytes() const {
  return numel() * static_cast<int64_t>(c10::elementSize(dtype));
}

Checkpoint::Checkpoint(fs::path folder) : folder_(std::move(folder)) {
  if (!fs::is_directory(folder_)) {
    throw GptqError(folder_.string() +
                    (fs::exists(folder_) ? " is not a folder" : " does not exist") +
                    "; expected a model's folder, with config.json and safetensors files");
  }
  std::error_code error;                          // a folder that may not be looked into
  const auto listed_as = [&](const char* name) {  // also a symbolic link that leads nowhere
    return fs::exists(fs::symlink_status(folder_ / name, error));
  };
  const bool sharded = listed_as(kIndex);
  if (!sharded && !listed_as(kSingle) && error == std::errc::no_such_file_or_directory) {
    throw GptqError(folder_.string() + " holds neither " + kIndex + " nor " + kSingle +
                    "; weights in other forms must be saved as safetensors first");
  }
  if (error && error != std::errc::no_such_file_or_directory)
    throw GptqError(folder_.string() + " cannot be read: " + error.message());
  const formats::Safetensors listed = formats::read_checkpoint(folder_);
  if (sharded) {
    const std::set<std::string> shards = shards_of(folder_ / kIndex);
    shards_.assign(shards.begin(), shards.end());
  } else {
    shards_ = {kSingle};
  }
  std::map<std::string, std::string> seen;  // of all tensors in the shards, listed or not
  for (const std::string& shard : shards_) {
    for (const auto& [name, tensor] : formats::read_safetensors(folder_ / shard).tensors) {
      const auto [at, is_new] = seen.emplace(name, shard);
      if (!is_new) {
        throw GptqError(folder_.string() + ": tensor '" + name +
                        "' is twice in the checkpoint, in " + at->second + " and in " + shard +
                        "; expected each name once: take it out of one of the two");
      }
      if (listed.tensors.contains(name))
        entries_[name] = {shard, tensor.scalar_type(), tensor.sizes().vec()};
    }
  }
}

const Checkpoint::Entry& Checkpoint::entry(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    throw GptqError(folder_.string() + ": the checkpoint has no tensor '" + std::string(name) +
                    "' among its " + std::to_string(entries_.size()) +
                    "; is it whole, and of the architecture that config.json names?");
  }
  return found->second;
}

std::vector<std::string> Checkpoint::names(std::string_view prefix) const {
  std::vector<std::string> out;
  for (auto at = entries_.lower_bound(prefix); at != entries_.end(); ++at) {
    if (!at->first.starts_with(prefix)) break;
    out.push_back(at->first);
  }
  return out;
}

int64_t Checkpoint::bytes() const {
  int64_t out = 0;
  for (const auto& [name, entry] : entries_) out += entry.bytes();
  return out;
}

formats::Safetensors Checkpoint::read(const std::vector<std::string>& names) const {
  formats::Safetensors out;
  out.source = folder_;
  std::map<std::string, formats::Safetensors> files;
  for (const std::string& name : names) {
    const Entry& expected = entry(name);
    auto [at, is_new] = files.try_emplace(expected.shard);
    if (is_new) at->second = formats::read_safetensors(folder_ / expected.shard);
    // With type and shape: the file may have changed since it was looked at.
    out.tensors.emplace(name, at->second.get(name, expected.dtype, expected.shape));
  }
  return out;
}

void Checkpoint::check_finite(const std::function<void(double)>& progress) const {
  const auto all = static_cast<double>(std::max<int64_t>(bytes(), 1));
  int64_t done = 0;
  for (const std::string& shard : shards_) {
    const formats::Safetensors file = formats::read_safetensors(folder_ / shard);
    for (const auto& [name, tensor] : file.tensors) {
      const auto listed = entries_.find(name);
      if (listed == entries_.end()) continue;
      if (!all_finite(tensor)) {
        throw GptqError(
            (folder_ / shard).string() + ": tensor '" + name +
            "' holds NaN or Inf; a model with such weights cannot be quantised: get the "
            "file again, or mend the training that made it");
      }
      done += listed->second.bytes();
      if (progress) progress(static_cast<double>(done) / all);
    }
  }
}

std::string Checkpoint::identity() const {
  std::string text;
  for (const std::string& shard : shards_) {
    const fs::path file = folder_ / shard;
    text += shard + ' ' + std::to_string(fs::file_size(file)) + ' ' +
            std::to_string(fs::last_write_time(file).time_since_epoch().count()) + '\n';
  }
  for (const auto& [name, entry] : entries_) {
    text += name + ' ' + c10::toString(entry.dtype);
    for (int64_t size : entry.shape) text += ' ' + std::to_string(size);
    text += '\n';
  }
  return crc_text(crc32(text.data(), text.size()));
}

bool all_finite(const Tensor& tensor) {
  if (!at::isFloatingType(tensor.scalar_type())) return true;
  constexpr int64_t kPiece = int64_t{1} << 22;
  const Tensor flat = tensor.reshape({-1});
  for (int64_t at = 0; at < flat.numel(); at += kPiece) {
    const Tensor piece = flat.narrow(0, at, std::min(kPiece, flat.numel() - at));
    // x - x is 0, or NaN where x is NaN or Inf; a NaN stays in the sum.
    if (!((piece - piece).sum().item<double>() == 0)) return false;
  }
  return true;
}

}  // namespace graft::quantizer
