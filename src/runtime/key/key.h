// What a plan depends on besides the numbers in its tensors: the plan key.
//
// Covered: of each tensor argument whether it is defined, dtype, device, layout and kind (the
// dispatch key set), sizes, strides, requires_grad; scalars and container sizes
// (FlatArgs::statics); grad, inference, autocast mode, default dtype and the flags by which ATen
// picks another operator; and how the arguments overlap in memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graft/detail/core.h"
#include "runtime/key/words.h"

namespace graft::runtime {

/// Why a call must stay eager whatever is planned.
struct Unsupported {
  enum class Kind : uint8_t { None, ThreadState, Tensor, LazyBit, ForwardGrad } kind = Kind::None;
  int argument = -1;
  explicit operator bool() const { return kind != Kind::None; }
  std::string text(const detail::FlatArgs& args) const;  ///< with the next step
};

struct Key {
  Words words;
  uint64_t hash = 0;

  /// Fills the key for a call made now, on this thread. No allocation for up to eight tensors of
  /// six dimensions.
  Unsupported build(const detail::FlatArgs& args);
};

/// A key kept in a plan table.
struct StoredKey {
  std::vector<uint64_t> words;
  uint64_t hash = 0;
  explicit StoredKey(const Key& key)
      : words(key.words.view().begin(), key.words.view().end()), hash(key.hash) {}
  bool matches(const Key& key) const {
    return hash == key.hash && same_words(words, key.words.view());
  }
};

/// The first difference, for logs: "argument 1: sizes [2, 16] expected, [2, 32] came". Empty when
/// equal.
std::string describe_difference(std::span<const uint64_t> expected, std::span<const uint64_t> came);

/// Words of one tensor's metadata; how a captured tensor is compared with what was recorded.
void append_tensor(Words& words, const at::Tensor& tensor);
/// "captured 3: dtype Float expected, Double came"
std::string describe_tensor_difference(const std::string& who, std::span<const uint64_t> expected,
                                       std::span<const uint64_t> came);

/// How tensors overlap: a single 0 when no two share memory; otherwise 1 and two words a tensor,
/// which name the group (its first tensor), the tensor's first equal (same TensorImpl), and the
/// distance in bytes to the group's lowest data pointer. Two tensors share memory when their
/// storages do, be it by one StorageImpl or by overlapping ranges.
void append_overlaps(Words& words, std::span<const at::Tensor* const> tensors);

}  // namespace graft::runtime
