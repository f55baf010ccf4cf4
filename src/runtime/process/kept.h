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

 private:
  std::mutex mutex_;
  std::map<Key, Value> known_;
};

}  // namespace graft::runtime
