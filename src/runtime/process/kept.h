// What was found out once in this process.
#pragma once

#include <map>
#include <mutex>
#include <optional>

namespace graft::runtime {

/// Thread-safe. Nobody holds the mutex while the answer is found: a fork in between would leave the
/// child without it.
template <class Key, class Value>
class Kept {
 public:
  std::optional<Value> find(const Key& key) {
    std::lock_guard lock(mutex_);
    auto known = known_.find(key);
    return known == known_.end() ? std::nullopt : std::optional(known->second);
  }
  void add(const Key& key, const Value& value) {
    std::lock_guard lock(mutex_);
    known_[key] = value;
  }
  /// Forgets the answers for which `test(value)` holds.
  template <class Test>
  void erase_if(Test test) {
    std::lock_guard lock(mutex_);
    std::erase_if(known_, [&](const auto& entry) { return test(entry.second); });
  }

 private:
  std::mutex mutex_;
  std::map<Key, Value> known_;
};

}  // namespace graft::runtime
