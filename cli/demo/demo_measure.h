// What `graft demo` measures. demo.cpp prints it.
#pragma once

#include <ATen/core/Tensor.h>
#include <graft/report.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/demo/demo.h"
#include "lab/accuracy/compare.h"
#include "lab/progress.h"
#include "lab/stats.h"
#include "lab/timer.h"
#include "workloads/minilm/model.h"
#include "workloads/minilm/sentences.h"
#include "workloads/minilm/tokenizer.h"

namespace graft::cli {

/// One shape of the whole model.
struct ModelRow {
  int64_t batch = 0, length = 0;
  workloads::minilm::Attention baseline{};  ///< eager's faster attention at this shape
  lab::Samples eager;
  lab::Samples pooled;    ///< eager under graft::PoolGuard
  lab::Samples compiled;  ///< under graft::PoolGuard
  lab::Samples alone;     ///< compiled, not in turns with variants that evict its data from caches
  lab::Samples tuned;     ///< compiled with Mode::MaxAutotune
  lab::Ratio speedup, pool_speedup;  ///< eager / compiled, eager / pooled
  lab::Ratio tuned_speedup;
  /// Compared with eager that uses the compiled side's attention.
  lab::Comparison result, tuned_result;
};

/// One region on the inputs that it gets in the model.
struct RegionRow {
  std::string name;
  int64_t calls_per_encode = 1;
  lab::Samples eager, compiled;
  lab::Ratio speedup;
  lab::Comparison result;
  double first_call_ms = 0;
  Report report;

  double eager_ms() const { return lab::median(eager.ms); }
  double compiled_ms() const { return lab::median(compiled.ms); }
  /// Calls until compiling has paid for itself; infinity where eager stays.
  double break_even_calls() const;
};

struct NearestRow {
  std::string_view query;
  std::vector<workloads::minilm::Neighbour> eager, compiled;
};

class DemoRun {
 public:
  /// Loads the model. Throws std::runtime_error.
  DemoRun(const DemoOptions& options, lab::Progress& progress);

  static constexpr int64_t kShapes[][2] = {{1, 16}, {1, 128}, {8, 64}, {32, 128}};
  /// How many steps of progress the measurements below begin.
  static size_t steps();

  /// The regions at the last of the shapes, each with a new compiled function.
  std::vector<RegionRow> measure_regions();
  std::vector<ModelRow> measure_model();
  std::vector<NearestRow> find_nearest();

 private:
  workloads::minilm::Tokenizer::Batch text_batch(int64_t batch, int64_t length) const;
  lab::MeasureOptions measuring(double seconds, int samples);
  at::Tensor encode(const workloads::minilm::Tokenizer::Batch& batch,
                    const workloads::minilm::Regions& compiled) const;
  void settle_model(const workloads::minilm::Tokenizer::Batch& batch,
                    const workloads::minilm::Regions& compiled);

  const DemoOptions& options_;
  lab::Progress& progress_;
  workloads::minilm::MiniLM model_;
  workloads::minilm::Tokenizer tokenizer_;
  workloads::minilm::Regions compiled_, tuned_;  ///< tuned: with Mode::MaxAutotune
};

}  // namespace graft::cli
