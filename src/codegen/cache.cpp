#include <condition_variable>
#include <mutex>
#include <unordered_map>

#include "codegen/backend.h"

namespace graft::codegen {

namespace {

/// One kernel structure on one target: compiled by the first who asks, awaited by the others.
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

Compiled get_or_compile(const ir::Kernel& kernel, const Binding& binding, const ir::Target& target,
                        std::shared_ptr<const Code> known, bool& compiled) {
  Cache& c = cache();
  const std::string key = target.code_key() + '\n' + binding.structure;
  std::unique_lock lock(c.mutex);
  // References to map values stay valid while others are added.
  Entry& entry = c.entries[key];
  while (entry.state == Entry::State::Running) c.done.wait(lock);
  compiled = false;
  if (entry.state == Entry::State::Ready) return entry.compiled;
  entry.state = Entry::State::Running;
  lock.unlock();
  try {
    if (known == nullptr) {
      const ir::Kernel* one = &kernel;
      known = std::make_shared<const Code>(host_backend().compile({&one, 1}, target, nullptr));
      compiled = true;
    }
    Loaded made = load_object(*known);
    Compiled ready{made.functions.at(0), std::move(made.keep_alive), std::move(known)};
    lock.lock();
    entry.compiled = std::move(ready);
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
