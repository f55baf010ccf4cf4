#include "systems/checkpoint/measure.h"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "systems/checkpoint/kept.h"
#include "systems/checkpoint/surroundings.h"

namespace graft::systems::checkpointing {
namespace {

using at::Tensor;

/// Sums what this thread allocates and frees, and passes it on to whom it was told before.
class AllocatedBytes final : public c10::MemoryReportingInfoBase {
 public:
  static inline const auto kKind = c10::DebugInfoKind::PROFILER_STATE;

  AllocatedBytes()
      : outer_(dynamic_cast<c10::MemoryReportingInfoBase*>(c10::ThreadLocalDebugInfo::get(kKind))) {
  }
  void reportMemoryUsage(void* block, int64_t bytes, size_t allocated, size_t reserved,
                         c10::Device device) override {
    live_ += bytes;
    peak_ = std::max(peak_, live_);
    if (outer_ != nullptr && outer_->memoryProfilingEnabled())
      outer_->reportMemoryUsage(block, bytes, allocated, reserved, device);
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t live() const { return live_; }
  /// From here on the peak is counted.
  void begin() { begin_ = peak_ = live_; }
  int64_t peak() const { return peak_ - begin_; }

 private:
  c10::MemoryReportingInfoBase* outer_;
  int64_t live_ = 0, begin_ = 0, peak_ = 0;
};

double ms_of(const std::function<void()>& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

LayerCost measure_layer(const CheckpointedLayers::Layer& layer, const Tensor& input) {
  const Surroundings before;
  const auto run = [&] {
    const SurroundingsGuard again(before);
    return layer(input);
  };
  KeptResults kept;
  const auto run_keeping = [&](KeepScope::Mode mode) {
    const SurroundingsGuard again(before);
    const KeepScope scope(kept, mode);
    return layer(input);
  };
  LayerCost cost;
  Tensor output;
  {
    const auto counter = std::make_shared<AllocatedBytes>();
    const c10::DebugInfoGuard guard(AllocatedBytes::kKind, counter);
    {
      const SurroundingsGuard again(before);
      counter->begin();  // without the guard's own copy of the generator
      output = layer(input);
      cost.running_bytes = counter->peak();
    }
    cost.bytes = counter->live();
  }
  const bool is_new = !output.storage().is_alias_of(input.storage());
  cost.output_bytes = is_new ? static_cast<int64_t>(output.storage().nbytes()) : 0;
  cost.everything_ms = std::min(ms_of(run), ms_of(run));
  output = run_keeping(KeepScope::Mode::Record);
  kept.forget_changed();
  cost.cheap_bytes = cost.output_bytes + kept.bytes({output, input});
  cost.cheap_ms = ms_of([&] { run_keeping(KeepScope::Mode::Replay); });
  return cost;
}

}  // namespace

std::vector<LayerCost> measure_layers(const std::vector<CheckpointedLayers::Layer>& layers,
                                      const Tensor& input) {
  std::vector<LayerCost> costs;
  Tensor x = input;
  for (const auto& layer : layers) {
    // A leaf: no layer's graph holds the one before.
    x = x.detach().set_requires_grad(x.requires_grad());
    costs.push_back(measure_layer(layer, x));
    const Surroundings before;
    const SurroundingsGuard again(before);
    x = layer(x);
  }
  return costs;
}

}  // namespace graft::systems::checkpointing
