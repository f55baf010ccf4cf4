#include <condition_variable>
#include <mutex>
#include <unordered_map>

#include "codegen/backend.h"

namespace graft::codegen {

namespace {

/// One kernel structure: compiled by the first who asks, awaited by the others.
struct Entry {
  enum class State : uint8_t { Absent, Running, Ready } state = State::Absent;
  Compiled compiled;
};

struct Cache {
  std::mutex mutex;  ///< never held while compiling
  std::condition_variable done;
  std::unordered_map<std::string, Entry> entries;
};

/// Never destroyed: background threads may use it while the process exits.
Cache& cache() {
  static auto* made = new Cache;
  return *made;
}

}  // namespace

Compiled get_or_compile(const ir::Kernel& kernel, const Binding& binding, bool& compiled) {
  Cache& c = cache();
  std::unique_lock lock(c.mutex);
  // References to map values stay valid while others are added.
  Entry& entry = c.entries[binding.structure];
  while (entry.state == Entry::State::Running) c.done.wait(lock);
  compiled = entry.state != Entry::State::Ready;
  if (!compiled) return entry.compiled;
  entry.state = Entry::State::Running;
  lock.unlock();
  try {
    Compiled made = host_backend().compile(kernel, false);
    lock.lock();
    entry.compiled = std::move(made);
    entry.state = Entry::State::Ready;
  } catch (...) {
    lock.lock();
    entry.state = Entry::State::Absent;
    c.done.notify_all();
    throw;
  }
  c.done.notify_all();
  return entry.compiled;
}

}  // namespace graft::codegen
