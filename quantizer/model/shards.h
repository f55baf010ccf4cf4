// The files of the quantised model's tensors: one per layer, and one for all other tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "formats/safetensors.h"
#include "quantizer/model/checkpoint.h"
#include "quantizer/model/targets.h"

namespace graft::quantizer {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Sizes of all tensors and of those that were quantised, before and after.
struct ShardBytes {
  int64_t source = 0, written = 0;
  int64_t linears_source = 0, linears_written = 0;
};

/// Both arguments must outlive it.
class Shards {
 public:
  Shards(const Checkpoint& source, const Targets& targets, int64_t layers)
      : source_(source), targets_(targets), layers_(layers) {}

  /// The file's name. Layers count from 0; number `layers` is the file for what is in no layer.
  std::string name(int64_t number) const;
  std::vector<std::string> names() const;

  /// Writes the packed tensors and those of the layer's `tensors` that are not quantised.
  void write_layer(const std::filesystem::path& file, const formats::Safetensors& tensors,
                   const NamedTensors& packed) const;
  /// Notes what is in a layer's file, which this run or an earlier one wrote.
  void note_layer(int64_t layer, const std::filesystem::path& file);
  /// Writes all tensors outside the layers, one at a time. All layers must have been noted.
  void write_rest(const std::filesystem::path& file);

  const std::map<std::string, std::string>& places() const { return places_; }
  const ShardBytes& bytes() const { return bytes_; }
  /// Are some layer's groups not runs of columns?
  bool scattered() const { return scattered_; }

 private:
  const Checkpoint& source_;
  const Targets& targets_;
  const int64_t layers_;
  std::map<std::string, std::string> places_;
  ShardBytes bytes_;
  bool scattered_ = false;
};

}  // namespace graft::quantizer
