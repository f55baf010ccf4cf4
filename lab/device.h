// What measuring needs from the device that a function runs on. The CPU is the only one so far;
// another device is another file with a Device of its own.
#pragma once

#include <functional>
#include <memory>

#include "lab/run.h"

namespace graft::lab {

class Device {
 public:
  virtual ~Device() = default;
  virtual const char* name() const = 0;
  /// Waits until the device has finished all its work.
  virtual void synchronize() = 0;
  /// Milliseconds from the device's start of `calls` calls to its end of them.
  virtual double time_ms(const std::function<void()>& run, int calls) = 0;
  /// What one call does with the device's memory.
  virtual MemoryUse memory_of(const std::function<void()>& run) = 0;
};

/// The CPU: calls return when they are done, so a steady clock is enough. `cached`: returns the
/// bytes that an allocator in front of c10's keeps for reuse; may be empty.
std::unique_ptr<Device> cpu_device(std::function<int64_t()> cached = {});

}  // namespace graft::lab
