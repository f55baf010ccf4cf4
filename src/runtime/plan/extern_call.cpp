#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "graft/collective.h"
#include "graft/pool.h"
#include "runtime/plan/frame.h"

namespace graft::runtime {

namespace {

/// While an extern call runs: autocast's casts are operators of the record already, and what it
/// allocates comes from the pool.
struct ExternGuards {
  c10::impl::ExcludeDispatchKeyGuard no_autocast{c10::autocast_dispatch_keyset};
  PoolGuard pool;
};

std::string name(const ExternStep& step) {
  return c10::toString(step.op.operator_name());
}

}  // namespace

Frame::~Frame() {
  for (const auto& [tensor, collective] : under_way_) try {
      await_collective(tensor, collective);
    } catch (const std::exception&) {
    }
}

void Frame::call(const ExternStep& step) {
  ExternGuards guards;
  torch::jit::Stack stack;
  stack.reserve(step.slots.size());
  for (const auto& slot : step.slots) stack.push_back(value(step, slot));
  if (step.awaits)
    std::erase_if(under_way_, [&](const auto& one) {
      return one.first.const_data_ptr() == stack[0].toTensor().const_data_ptr();
    });
  if (step.starts) {
    const auto started = std::make_pair(stack[0].toTensor(), stack[1].toStringRef());
    step.op.callBoxed(stack);
    under_way_.push_back(started);
    return;
  }
  if (step.draw == nullptr || !step.draw(stack)) step.op.callBoxed(stack);
  size_t next = 0;
  for (size_t k = 0; k < stack.size(); ++k)
    if (k >= 64 || (step.undefined >> k & 1) == 0) take(step, stack[k], next);
  if (next != step.outputs.size())
    throw PlanError(name(step) + " returned fewer tensors than when it was recorded", false);
}

c10::IValue Frame::value(const ExternStep& step, const ExternStep::Slot& slot) const {
  using Kind = OperandKind;
  // Some operators look at grad mode themselves (oneDNN's LSTM makes a workspace for backward), so
  // it stays the caller's. But no graph is built: a leaf goes in as a tensor over its memory.
  auto tensor = [&](int index) {
    if (index < 0) return at::Tensor();
    at::Tensor made = view(step.inputs[static_cast<size_t>(index)]);
    return c10::GradMode::is_enabled() && made.requires_grad() ? made.variable_data() : made;
  };
  switch (slot.kind) {
    case Kind::Constant:
      return slot.constant;
    case Kind::Number:
      return *reinterpret_cast<const double*>(
          at(step.inputs[static_cast<size_t>(slot.views.at(0))].place));
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
  if (tensor.scalar_type() != output.view.view.dtype ||
      tensor.sizes() != c10::IntArrayRef(output.view.view.sizes))
    throw PlanError(name(step) + " returned another dtype or other sizes than when it was recorded",
                    false);
  if (output.binds) return bind_returned(output.view, tensor);
  if (!output.made) return;
  if (data_of(*tensor.unsafeGetTensorImpl(), true) != at(output.view.place) ||
      tensor.strides() != c10::IntArrayRef(output.view.view.strides))
    throw PlanError(name(step) + " returned tensors that no longer share memory", false);
}

void Frame::bind_returned(const ViewSpec& expected, const at::Tensor& tensor) {
  const auto b = static_cast<size_t>(expected.place.block);
  const int64_t wanted = plan_.blocks_[b].bytes;
  if (tensor.strides() == c10::IntArrayRef(expected.view.strides)) {
    const c10::Storage& storage = tensor.storage();
    char* base = data_of(*tensor.unsafeGetTensorImpl(), true) - expected.place.offset;
    const int64_t before = base - static_cast<const char*>(storage.data());
    const int64_t came = static_cast<int64_t>(storage.nbytes()) - before;
    if (before >= 0 && came >= wanted) {
      storages_[b] = storage;
      bases_[b] = base;
      return;
    }
  }
  // A later operator enlarges it (out=, resize_), or the operator follows where its input lies in
  // its storage, which differs from call to call: here it gets memory as it was recorded.
  storages_[b] = make_storage(wanted);
  bases_[b] = static_cast<char*>(storages_[b].mutable_data());
  if (tensor.numel() > 0) make_view(expected, storages_[b], expected.place.offset).copy_(tensor);
}

}  // namespace graft::runtime
