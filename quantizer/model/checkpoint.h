// A checkpoint of safetensors files that is read a few tensors at a time: headers are read and
// checked at the start, the data stays in the files.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "formats/safetensors.h"

namespace graft::quantizer {

/// Thread-safe. Errors: formats::SafetensorsError or GptqError, naming the file and the tensor.
class Checkpoint {
 public:
  struct Entry {
    std::string shard;  ///< file name beside the index
    at::ScalarType dtype = at::ScalarType::Undefined;
    std::vector<int64_t> shape;

    int64_t numel() const;
    int64_t bytes() const;
  };

  /// Opens `model.safetensors.index.json` and its shards, or `model.safetensors`, in `folder`, and
  /// checks every header: refuses shards that are missing, cut short or hold an unknown dtype, and
  /// a tensor that is in two shards.
  explicit Checkpoint(std::filesystem::path folder);

  const std::filesystem::path& folder() const { return folder_; }
  const std::map<std::string, Entry, std::less<>>& entries() const { return entries_; }
  /// Throws if there is no tensor of that name.
  const Entry& entry(std::string_view name) const;
  /// Names that begin with `prefix`, sorted; all of them for "".
  std::vector<std::string> names(std::string_view prefix) const;
  int64_t bytes() const;  ///< of all tensors

  /// These tensors, as views of newly mapped files: only pages that are read take memory, until the
  /// views are gone.
  formats::Safetensors read(const std::vector<std::string>& names) const;

  /// Reads all floating tensors once and throws GptqError naming the first that holds NaN or Inf.
  /// `progress` is called with the part that is done, 0 to 1.
  void check_finite(const std::function<void(double)>& progress = {}) const;

  /// A checksum of the files' names, sizes, modification times and headers: it changes when a file
  /// does.
  std::string identity() const;

 private:
  std::filesystem::path folder_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::vector<std::string> shards_;
};

/// Is no element NaN or Inf? Reads in pieces, with little memory.
bool all_finite(const at::Tensor& tensor);

}  // namespace graft::quantizer
