#include "support/memory.h"

#include <ATen/TensorUtils.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace graft::test {

void fail(const std::string& what) {
  throw std::logic_error("interpreter: " + what);
}

namespace {

c10::Storage fresh(int64_t bytes) {
  at::Tensor tensor = at::empty({bytes}, at::TensorOptions(at::kByte));
  if (bytes > 0) std::memset(tensor.mutable_data_ptr(), 0xff, static_cast<size_t>(bytes));
  return tensor.storage();
}

int64_t byte_offset(const at::Tensor& tensor) {
  return tensor.storage_offset() * static_cast<int64_t>(tensor.itemsize());
}

struct Range {
  const char *first, *last;
};

Range reach(const at::Tensor& tensor) {
  const char* data = static_cast<const char*>(tensor.storage().data()) + byte_offset(tensor);
  int64_t elements = tensor.numel() > 0 ? 1 : 0;
  for (int64_t d = 0; d < tensor.dim() && elements > 0; ++d)
    elements += (tensor.size(d) - 1) * tensor.stride(d);
  return {data, data + elements * static_cast<int64_t>(tensor.itemsize())};
}

/// Lowest address of the tensors that are one storage with `tensors[source]`: they share its
/// StorageImpl, or overlap it.
const char* base_of(const std::vector<at::Tensor>& tensors, size_t source) {
  Range whole = reach(tensors[source]);
  std::vector<bool> in(tensors.size(), false);
  in[source] = true;
  for (bool grown = true; grown;) {
    grown = false;
    for (size_t k = 0; k < tensors.size(); ++k) {
      if (in[k] || !tensors[k].defined() || tensors[k].numel() == 0) continue;
      Range range = reach(tensors[k]);
      bool shares = false;
      for (size_t other = 0; other < tensors.size(); ++other)
        shares =
            shares || (in[other] && tensors[other].storage().is_alias_of(tensors[k].storage()));
      if (!shares && (range.last <= whole.first || whole.last <= range.first)) continue;
      in[k] = grown = true;
      whole = {std::min(whole.first, range.first), std::max(whole.last, range.last)};
    }
  }
  return whole.first;
}

}  // namespace

Memory::Memory(const std::vector<ir::Storage>& storages, const std::vector<at::Tensor>& args,
               const std::vector<at::Tensor>& captured) {
  for (const ir::Storage& storage : storages) {
    Block block;
    block.bytes = storage.bytes;
    if (storage.role == ir::Role::Argument || storage.role == ir::Role::Captured) {
      const auto& tensors = storage.role == ir::Role::Argument ? args : captured;
      auto source = static_cast<size_t>(storage.source);
      if (source >= tensors.size() || !tensors[source].defined())
        fail("argument or capture " + std::to_string(storage.source) + " is missing");
      block.memory = tensors[source].storage();
      block.base = base_of(tensors, source) - static_cast<const char*>(block.memory.data());
    } else if (!storage.made_by_extern) {
      block.memory = fresh(storage.bytes);
    }
    blocks_.push_back(std::move(block));
  }
}

char* Memory::at(int storage, int64_t offset, int64_t size) const {
  const Block& block = blocks_.at(static_cast<size_t>(storage));
  if (!block.memory)
    fail("storage %" + std::to_string(storage) + " is used before an extern made it");
  if (offset < 0 || offset + size > block.bytes)
    fail("bytes " + std::to_string(offset) + " to " + std::to_string(offset + size) +
         " of storage %" + std::to_string(storage) + ", which has " + std::to_string(block.bytes));
  return static_cast<char*>(block.memory.mutable_data()) + block.base + offset;
}

at::Tensor Memory::tensor(const ir::View& view) const {
  const Block& block = blocks_.at(static_cast<size_t>(view.storage));
  if (!block.memory)
    fail("storage %" + std::to_string(view.storage) + " is used before an extern made it");
  auto size = static_cast<int64_t>(c10::elementSize(view.dtype));
  int64_t offset = block.base + view.byte_offset;
  if (offset % size != 0) fail("a view is not aligned to its element size");
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(block.memory), c10::DispatchKeySet(c10::DispatchKey::CPU),
      c10::scalarTypeToTypeMeta(view.dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(view.sizes, view.strides, offset / size);
  return tensor;
}

void Memory::bind(const ir::View& view, const at::Tensor& tensor) {
  Block& block = blocks_.at(static_cast<size_t>(view.storage));
  block.memory = tensor.storage();
  block.base = byte_offset(tensor) - view.byte_offset;
  block.bytes = static_cast<int64_t>(tensor.storage().nbytes()) - block.base;
}

void Memory::renew(int storage, int64_t bytes) {
  blocks_.at(static_cast<size_t>(storage)) = Block{fresh(bytes), 0, bytes};
}

}  // namespace graft::test
