// The plan key: everything that a plan depends on except the numbers in its tensors.
//
// It holds, for each tensor argument, whether it is defined, its dtype, device, layout and kind
// (the dispatch key set), sizes, strides, requires_grad and whether it has a gradient; of a
// function that runs a backward, whether it is a leaf; scalars and container sizes
// (FlatArgs::statics);
// grad, inference and autocast mode, the default dtype, whether the thread flushes subnormal
// numbers, and the flags by which ATen selects other operators; how the arguments overlap in
// memory; and which captured leaves come with a gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graft/detail/core.h"
#include "runtime/key/words.h"

namespace graft::runtime {

/// Why a call must run eagerly whatever plans there are.
struct Unsupported {
  enum class Kind : uint8_t { None, ThreadState, Tensor, LazyBit, ForwardGrad } kind = Kind::None;
  int argument = -1;
  explicit operator bool() const { return kind != Kind::None; }
  std::string text(const detail::FlatArgs& args) const;  ///< with the next step
};

using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

struct Key {
  Words words;
  uint64_t hash = 0;

  /// Fills the key for a call made now, on this thread. No allocation for up to eight tensors of
  /// six dimensions.
  /// `leaves`: captured leaves that records met. `links`: a record saw the function run a backward.
  Unsupported build(const detail::FlatArgs& args, std::span<const WeakTensor> leaves = {},
                    bool links = false);
};

/// Reads what keys hold of libtorch's settings, which makes libtorch create all of it.
void touch_settings();

/// Did the user allow products of fp32 to round their factors to bf16 (float32MatmulPrecision
/// medium)? It is in the key.
bool products_may_be_short();

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

/// Does a key built now match, where no record met captured leaves or saw a backward? Without
/// building it.
bool fits(const StoredKey& key, const detail::FlatArgs& args);

/// Does the tensor have the metadata that append_layout() wrote?
bool has_layout(std::span<const uint64_t> words, const c10::TensorImpl& impl, bool hooks);

/// The first difference of two keys, for logs: "argument 1: sizes [2, 16] expected, [2, 32] came".
/// Empty when they are equal.
std::string describe_difference(std::span<const uint64_t> expected, std::span<const uint64_t> came);

/// Appends the words of one tensor's metadata, by which captured tensors are compared: all but
/// whether it has a gradient and, without `hooks`, whether autograd calls functions for it.
void append_layout(Words& words, const at::Tensor& tensor, bool hooks = true);
/// "captured 3: dtype Float expected, Double came"
std::string describe_tensor_difference(const std::string& who, std::span<const uint64_t> expected,
                                       std::span<const uint64_t> came);

/// Appends how tensors overlap: a single 0 when no two share memory; otherwise 1 and two words per
/// tensor: the first tensor of its group and the first with the same TensorImpl, and the distance
/// in bytes to the group's lowest data pointer. Two tensors share memory when their storages do, by
/// one StorageImpl or by overlapping ranges.
void append_overlaps(Words& words, std::span<const at::Tensor* const> tensors);

}  // namespace graft::runtime
