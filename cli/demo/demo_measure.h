// What `graft demo` measures. demo.cpp prints it.
#pragma once

#include <ATen/core/Tensor.h>
#include <graft/report.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/demo/demo.h"
#include "lab/accuracy/compare.h"
#include "lab/progress.h"
#include "lab/stats.h"
#include "lab/timer.h"
#include "workloads/minilm/model.h"
#include "workloads/minilm/samples.h"
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
  /// Eager and compiled, each without turns, in which one leaves the other cold caches.
  lab::Samples eager_alone, alone;
  lab::Samples tuned;        ///< compiled with Mode::MaxAutotune; empty without --full
  lab::Ratio speedup;        ///< eager / compiled
  lab::Ratio alone_speedup;  ///< eager_alone / alone
  lab::Ratio tuned_speedup;
  /// Against eager, with the compiled side's attention.
  lab::Comparison result, tuned_result;
};

/// One region on the inputs that it has inside the model.
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

  /// Batch and length of what is encoded.
  using Shape = std::array<int64_t, 2>;
  /// One sentence at a time, and then batches; the last shape needs seconds per call on a small
  /// machine and is measured with --full.
  static constexpr Shape kSingle[] = {{1, 16}, {1, 128}}, kBatches[] = {{8, 64}, {32, 128}};
  static std::span<const Shape> batches(bool full);
  /// Steps of progress that the measurements below begin.
  static size_t steps(bool full);

  /// The regions at the last of the batches. Before anything else is compiled, so that what their
  /// first calls cost is the cost of compiling them from nothing.
  void compile_regions();
  std::vector<ModelRow> measure_model(std::span<const Shape> shapes);
  /// After compile_regions().
  std::vector<RegionRow> measure_regions();
  std::vector<NearestRow> find_nearest();

 private:
  workloads::minilm::Tokenizer::Batch text_batch(int64_t batch, int64_t length) const;
  ModelRow measure_shape(int64_t batch, int64_t length);
  /// The slower of eager's two attentions is no baseline: a user would leave it for the other.
  workloads::minilm::Attention faster_attention(const workloads::minilm::Tokenizer::Batch& text);
  lab::MeasureOptions measuring(double seconds, int samples) const;
  at::Tensor encode(const workloads::minilm::Tokenizer::Batch& batch,
                    const workloads::minilm::Regions& compiled) const;
  /// Encodes until each region's verdict is there, for some seconds at most.
  void settle_model(const workloads::minilm::Tokenizer::Batch& batch,
                    const workloads::minilm::Regions& compiled);

  struct CompiledRegion {
    workloads::minilm::RegionSample sample;
    workloads::CompiledCall compiled;
    double first_call_ms = 0;
  };

  const DemoOptions& options_;
  lab::Progress& progress_;
  workloads::minilm::MiniLM model_;
  workloads::minilm::Tokenizer tokenizer_;
  workloads::minilm::Regions compiled_, tuned_;  ///< tuned: with Mode::MaxAutotune
  std::vector<CompiledRegion> regions_;
};

}  // namespace graft::cli
