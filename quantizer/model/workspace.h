// Where a model's quantised layers are kept until all are done, so that a run that was cut short
// can go on: `<out>/.graft-quantize/` with a shard a layer, a state file and a lock.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "quantizer/model/layer.h"

namespace graft::workloads::gptq {

/// What became of one linear layer.
struct LinearReport {
  std::string module;
  int64_t rows = 0, columns = 0;
  double loss = 0;  ///< LayerResult's
  int64_t dead_columns = 0;
  double dampening = 0;
  LayerTimes times;
  std::string weight_crc32;  ///< of the dequantised fp32 weight, row-major
};

struct LayerReport {
  int64_t layer = 0;
  double seconds = 0;    ///< of quantising and writing it, when that was done
  bool resumed = false;  ///< an earlier run did it
  std::vector<LinearReport> linears;

  double loss() const;
};
nlohmann::json to_json(const LayerReport& report);

/// Not thread-safe; one process at a time, which a lock sees to. Errors: GptqError saying what is
/// in the way and what to do.
class Workspace {
 public:
  /// Makes `out` and the work folder in it, or takes up one that a run with an equal `identity` has
  /// left: an object of `{"value": …, "said": what the user said}`. Refuses a folder that holds
  /// other files, one that another process works in, and another identity.
  Workspace(std::filesystem::path out, nlohmann::json identity);
  /// Takes the folders away again if no layer was finished.
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  /// Where a shard is written, and stays until publish().
  std::filesystem::path working(const std::string& shard) const;
  /// Where a finished shard is: in the work folder, or in `out` if publishing was cut short.
  std::filesystem::path finished(const std::string& shard) const;

  /// Whether the layer's shard was finished and still has the size and checksum that it had then.
  bool has_layer(int64_t layer) const;
  const LayerReport& report(int64_t layer) const { return done_.at(layer).report; }
  const std::string& shard(int64_t layer) const { return done_.at(layer).shard; }
  /// Notes that the layer's shard is whole, on the disk at once.
  void finish_layer(const LayerReport& report, const std::string& shard);

  /// A folder for all other files of the model, empty at first, until publish().
  const std::filesystem::path& files() const { return files_; }

  /// Gives the shards and the other files their final names in `out`, config.json the last.
  void publish(const std::vector<std::string>& shards) const;
  /// Takes the work folder away.
  void remove();

 private:
  struct Done {
    std::string shard;
    uintmax_t bytes = 0;
    std::string crc32;
    LayerReport report;
  };
  bool holds_foreign_files() const;
  void load();
  void save() const;

  std::filesystem::path out_, folder_, files_;
  nlohmann::json identity_;
  std::map<int64_t, Done> done_;
  int lock_ = -1;
};

}  // namespace graft::workloads::gptq
