// The memory that a tensor lies in.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace graft::runtime {

/// The storage's bytes: two views of one storage always meet, two storages over one buffer
/// (from_blob) do as well. All 0 for a tensor that is undefined or has no memory.
struct Range {
  uintptr_t low = 0, high = 0, data = 0;
};

inline Range range_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  const c10::StorageImpl* storage = impl.unsafe_storage().unsafeGetStorageImpl();
  if (storage == nullptr) return {};
  auto low = reinterpret_cast<uintptr_t>(storage->data());
  uintptr_t data = low + static_cast<uintptr_t>(impl.storage_offset()) * impl.dtype().itemsize();
  return {low, low == 0 ? 0 : low + storage->nbytes(), data};
}

}  // namespace graft::runtime
