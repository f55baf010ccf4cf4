#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstring>

#include "graft/pool.h"
#include "runtime/plan/frame.h"

namespace graft::runtime {

namespace {

/// While an extern call runs: no gradient is recorded for it, autocast's casts are operators of the
/// record already, and what it allocates comes from the pool.
struct ExternGuards {
  at::NoGradGuard no_grad;
  c10::impl::ExcludeDispatchKeyGuard no_autocast{c10::autocast_dispatch_keyset};
  PoolGuard pool;
};

std::string name(const ExternStep& step) {
  return c10::toString(step.op.operator_name());
}

}  // namespace

void Frame::call(const ExternStep& step) {
  ExternGuards guards;
  torch::jit::Stack stack;
  stack.reserve(step.slots.size());
  for (const auto& slot : step.slots) stack.push_back(value(step, slot));
  step.op.callBoxed(stack);
  size_t next = 0;
  for (const c10::IValue& returned : stack) take(step, returned, next);
  if (next != step.outputs.size())
    throw PlanError(name(step) + " returned fewer tensors than when it was recorded", false);
}

c10::IValue Frame::value(const ExternStep& step, const ExternStep::Slot& slot) const {
  using Kind = ir::Extern::Slot::Kind;
  auto tensor = [&](int index) {
    return index < 0 ? at::Tensor() : view(step.inputs[static_cast<size_t>(index)]);
  };
  switch (slot.kind) {
    case Kind::Constant:
      return slot.constant;
    case Kind::Tensor:
      if (slot.optional && slot.views.at(0) < 0) return {};
      return tensor(slot.views.at(0));
    case Kind::TensorList: {
      c10::List<at::Tensor> list;
      list.reserve(slot.views.size());
      for (int index : slot.views) list.push_back(tensor(index));
      return list;
    }
    case Kind::OptionalTensorList: {
      c10::List<std::optional<at::Tensor>> list;
      list.reserve(slot.views.size());
      for (int index : slot.views)
        list.push_back(index < 0 ? std::nullopt : std::make_optional(tensor(index)));
      return list;
    }
  }
  return {};
}

void Frame::take(const ExternStep& step, const c10::IValue& returned, size_t& next) {
  if (returned.isTensor()) {
    if (returned.toTensor().defined()) take_tensor(step, returned.toTensor(), next);
  } else if (returned.isTensorList()) {
    for (const at::Tensor& tensor : returned.toTensorVector())
      if (tensor.defined()) take_tensor(step, tensor, next);
  }
}

void Frame::take_tensor(const ExternStep& step, const at::Tensor& tensor, size_t& next) {
  if (next >= step.outputs.size())
    throw PlanError(name(step) + " returned more tensors than when it was recorded", false);
  const ExternStep::Output& output = step.outputs[next++];
  if (!output.made) return;
  const ViewSpec& expected = output.view;
  if (tensor.dtype() != expected.dtype || tensor.sizes() != c10::IntArrayRef(expected.sizes) ||
      tensor.strides() != c10::IntArrayRef(expected.strides))
    throw PlanError(name(step) + " returned another layout than when it was recorded", false);
  auto b = static_cast<size_t>(expected.place.block);
  char* base = data_of(tensor, true) - expected.place.offset;
  if (output.binds) {
    const c10::Storage& storage = tensor.storage();
    int64_t before = base - static_cast<const char*>(storage.data());
    int64_t came = static_cast<int64_t>(storage.nbytes()) - before, wanted = plan_.blocks_[b].bytes;
    if (before < 0)
      throw PlanError(name(step) + " returned memory that begins after what was recorded", false);
    if (came < wanted) {
      // A later operator enlarged it (out=, resize_): here it gets all that it will need at once.
      storages_[b] = make_storage(wanted);
      bases_[b] = static_cast<char*>(storages_[b].mutable_data());
      if (came > 0) std::memcpy(bases_[b], base, static_cast<size_t>(came));
    } else {
      storages_[b] = storage;
      bases_[b] = base;
    }
  } else if (bases_[b] != base) {
    throw PlanError(name(step) + " returned tensors that no longer share memory", false);
  }
}

}  // namespace graft::runtime
