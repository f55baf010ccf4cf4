// A map from addresses to small values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace graft::record {

/// Open addressing with linear probing; keys are never removed. Recording looks addresses up
/// several times per operator, so a lookup must cost a few nanoseconds.
template <class V>
class PointerMap {
 public:
  PointerMap() : slots_(64) {}

  /// The value at `key`, or nullptr. Valid until the next insertion.
  V* find(const void* key) {
    Slot& slot = slots_[place(key)];
    return slot.key == nullptr ? nullptr : &slot.value;
  }
  const V* find(const void* key) const { return const_cast<PointerMap*>(this)->find(key); }

  /// `key` must not be null; a value that is there already is replaced.
  void insert(const void* key, V value) {
    Slot& slot = slots_[place(key)];
    const bool fresh = slot.key == nullptr;
    slot = {key, std::move(value)};
    if (fresh && ++used_ * 2 > slots_.size()) grow();
  }

 private:
  struct Slot {
    const void* key = nullptr;
    V value{};
  };

  size_t place(const void* key) const {
    const size_t mask = slots_.size() - 1;
    size_t at = (reinterpret_cast<uintptr_t>(key) * 0x9E3779B97F4A7C15ULL) >> 20 & mask;
    while (slots_[at].key != nullptr && slots_[at].key != key) at = (at + 1) & mask;
    return at;
  }

  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (Slot& slot : old) {
      if (slot.key != nullptr) slots_[place(slot.key)] = std::move(slot);
    }
  }

  std::vector<Slot> slots_;
  size_t used_ = 0;
};

}  // namespace graft::record
