// The folder that keeps a model's quantised layers until all are done, so that an interrupted run
// can be resumed: `<out>/.graft-quantize/` with one shard per layer, a state file and a lock.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "quantizer/model/layer.h"

namespace graft::quantizer {

/// The result of quantising one linear layer.
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
  double seconds = 0;    ///< how long quantising and writing it took
  bool resumed = false;  ///< an earlier run did it
  std::vector<LinearReport> linears;

  double loss() const;
};
nlohmann::json to_json(const LayerReport& report);

/// Not thread-safe. A lock admits one process at a time. Errors: GptqError saying what is wrong and
/// what to do.
class Workspace {
 public:
  /// Makes `out` and the work folder in it, or resumes one that a run of equal `identity`
  /// (start.h) has left. Refuses a folder that holds other files, one that another process uses,
  /// and one of another identity.
  Workspace(std::filesystem::path out, nlohmann::json identity);
  /// Removes the folders if no layer was finished.
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  /// Where a shard is written to; it stays there until publish().
  std::filesystem::path working(const std::string& shard) const;
  /// Where a finished shard is: in the work folder, or in `out` if publishing was interrupted.
  std::filesystem::path finished(const std::string& shard) const;

  /// Was the layer's shard finished, and does it still have the size and checksum it had then?
  bool has_layer(int64_t layer) const;
  const LayerReport& report(int64_t layer) const { return done_.at(layer).report; }
  const std::string& shard(int64_t layer) const { return done_.at(layer).shard; }
  /// Notes on the disk that the layer's shard is complete.
  void finish_layer(const LayerReport& report, const std::string& shard);

  /// A folder, empty at first, for all other files of the model; they stay there until publish().
  const std::filesystem::path& files() const { return files_; }

  /// Moves the shards and the other files to their final names in `out`, config.json last.
  void publish(const std::vector<std::string>& shards) const;
  /// Removes the work folder.
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

}  // namespace graft::quantizer
