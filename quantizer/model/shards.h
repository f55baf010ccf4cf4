// The files that the quantised model's tensors go to: one a layer, and one for all else.
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

namespace graft::workloads::gptq {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// What the tensors take, of all of them and of what was quantised.
struct ShardBytes {
  int64_t source = 0, written = 0;
  int64_t linears_source = 0, linears_written = 0;
};

/// Both arguments must outlive it.
class Shards {
 public:
  Shards(const Checkpoint& source, const Targets& targets, int64_t layers)
      : source_(source), targets_(targets), layers_(layers) {}

  /// From 0; number `layers` is the one for what is in no layer.
  std::string name(int64_t number) const;
  std::vector<std::string> names() const;

  /// The packed tensors, and those of the layer's `tensors` that stay as they are.
  void write_layer(const std::filesystem::path& file, const lab::Safetensors& tensors,
                   const NamedTensors& packed) const;
  /// Takes note of what is in a layer's file, which this run or an earlier one wrote.
  void note_layer(int64_t layer, const std::filesystem::path& file);
  /// When all layers are noted: embeddings, heads and all else, one tensor at a time.
  void write_rest(const std::filesystem::path& file);

  const std::map<std::string, std::string>& places() const { return places_; }
  const ShardBytes& bytes() const { return bytes_; }
  /// Some layer's groups are not runs of columns.
  bool scattered() const { return scattered_; }

 private:
  const Checkpoint& source_;
  const Targets& targets_;
  const int64_t layers_;
  std::map<std::string, std::string> places_;
  ShardBytes bytes_;
  bool scattered_ = false;
};

}  // namespace graft::workloads::gptq
