#include <chrono>
#include <utility>

#include "lab/device.h"
#include "lab/memory/memory.h"

namespace graft::lab {
namespace {

class Cpu : public Device {
 public:
  explicit Cpu(std::function<int64_t()> cached) : cached_(std::move(cached)) {}

  const char* name() const override { return "cpu"; }
  void synchronize() override {}

  double time_ms(const std::function<void()>& run, int calls) override {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) run();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
        .count();
  }

  MemoryUse memory_of(const std::function<void()>& run) override {
    MemoryTracker tracker({.cached = cached_});
    run();
    return tracker.use();
  }

 private:
  std::function<int64_t()> cached_;
};

}  // namespace

std::unique_ptr<Device> cpu_device(std::function<int64_t()> cached) {
  return std::make_unique<Cpu>(std::move(cached));
}

}  // namespace graft::lab
