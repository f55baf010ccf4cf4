#include "runtime/plan/folded.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "runtime/plan/frame.h"
#include "tensor/denormals.h"

namespace graft::runtime {

namespace {

/// Words of a source that are compared at each call.
constexpr size_t kSamples = 8;

uint64_t sample(const char* data, size_t bytes) {
  uint64_t hash = bytes;
  if (bytes == 0) return hash;
  for (size_t k = 0; k < kSamples; ++k) {
    uint64_t word = 0;
    const size_t size = std::min(sizeof word, bytes);
    std::memcpy(&word, data + (bytes - size) * k / (kSamples - 1), size);
    hash = std::rotl(hash ^ word, 29) * 0x9e3779b97f4a7c15;
  }
  return hash;
}

}  // namespace

Folded::Folded(Parts parts) : parts_(std::move(parts)) {
  for (const FoldedBlock& block : parts_.blocks)
    kernels_key_.insert(kernels_key_.end(), {block.block, static_cast<uint64_t>(block.bytes)});
  for (const Source& source : parts_.sources)
    kernels_key_.push_back(static_cast<uint64_t>(source.back));
  for (const KernelStep* kernel : parts_.kernels) {
    const codegen::Binding& binding = kernel->binding;
    kernels_key_.push_back(reinterpret_cast<uint64_t>(kernel->fn));
    kernels_key_.push_back(static_cast<uint64_t>(binding.range_extent));
    kernels_key_.push_back(binding.integers.size());
    kernels_key_.insert(kernels_key_.end(), binding.integers.begin(), binding.integers.end());
    kernels_key_.insert(kernels_key_.end(), binding.scalars.begin(), binding.scalars.end());
    for (const Place& at : kernel->pointers)
      kernels_key_.insert(kernels_key_.end(),
                          {static_cast<uint64_t>(at.block), static_cast<uint64_t>(at.offset)});
  }
}

int64_t Folded::bytes() const {
  int64_t sum = 0;
  for (const FoldedBlock& block : parts_.blocks) sum += block.bytes;
  return sum;
}

std::optional<Folded::State> Folded::state(const at::Tensor* captured) const {
  State made;
  made.push_back(flushes_denormals());
  for (const Source& source : parts_.sources) {
    const c10::TensorImpl& impl = *captured[source.captured].unsafeGetTensorImpl();
    if (!impl.version_counter().enabled()) return std::nullopt;
    const c10::StorageImpl* storage = impl.unsafe_storage().unsafeGetStorageImpl();
    const char* data = static_cast<const char*>(storage->data()) +
                       impl.storage_offset() * static_cast<int64_t>(impl.dtype().itemsize());
    made.push_back(reinterpret_cast<uint64_t>(storage));
    made.push_back(reinterpret_cast<uint64_t>(data));
    made.push_back(impl.version_counter().current_version());
    made.push_back(sample(data + source.low, static_cast<size_t>(source.high - source.low)));
  }
  return made;
}

Kept<std::vector<uint64_t>, std::weak_ptr<const Folded::Values>>& Folded::all() {
  static auto* kept = new Kept<std::vector<uint64_t>, std::weak_ptr<const Values>>;
  return *kept;  // the worker may outlive static objects
}

std::vector<uint64_t> Folded::key(const State& state) const {
  std::vector<uint64_t> key = kernels_key_;
  key.insert(key.end(), state.begin(), state.end());
  return key;
}

std::shared_ptr<const Folded::Memory> Folded::find(const State& state) const {
  std::shared_ptr<const Values> values;
  {
    const std::lock_guard lock(mutex_);
    values = newest_;
  }
  if (!values || values->state != state) {
    const std::optional<std::weak_ptr<const Values>> found = all().find(key(state));
    values = found ? found->lock() : nullptr;
    if (!values) return nullptr;
    const std::lock_guard own(mutex_);
    newest_ = values;
  }
  return {values, &values->memory};
}

void Folded::put(const State& state, const at::Tensor* captured, Memory memory) const {
  auto made = std::make_shared<Values>();
  made->state = state;
  for (const Source& source : parts_.sources)
    made->sources.emplace_back(captured[source.captured].storage().getWeakStorageImpl());
  made->memory = std::move(memory);
  all().erase_if([](const auto& values) { return values.expired(); });
  all().add(key(state), made);
  const std::lock_guard lock(mutex_);
  newest_ = std::move(made);
}

void Plan::bind_folded(Frame& frame, const at::Tensor* captured) const {
  if (!folded_) return;
  // (Nothing stands in for a source: the plan does not write it.)
  const std::optional<Folded::State> state = folded_->state(captured);
  if (state)
    if (const std::shared_ptr<const Folded::Memory> known = folded_->find(*state))
      return frame.bind_folded(*folded_, *known);
  Folded::Memory memory;
  for (const Folded::FoldedBlock& block : folded_->parts().blocks)
    memory.push_back(make_storage(block.bytes));
  frame.bind_folded(*folded_, memory);
  c10::SmallVector<char*, 48> pointers;
  pointers.resize_for_overwrite(max_pointers_);
  for (const KernelStep* kernel : folded_->parts().kernels)
    launch(*kernel, frame.bases(), pointers.data());
  if (state) folded_->put(*state, captured, std::move(memory));
}

void Frame::bind_folded(const Folded& folded, const std::vector<c10::Storage>& memory) {
  for (size_t k = 0; k < memory.size(); ++k) {
    const size_t b = folded.parts().blocks[k].block;
    storages_[b] = memory[k];
    bases_[b] = static_cast<char*>(const_cast<void*>(memory[k].data()));
  }
}

}  // namespace graft::runtime
