#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/function.h>  // variable.h of torch 2.15 lacks it
#include <torch/csrc/autograd/variable.h>

#include <optional>
#include <utility>

#include "record/other_numbers.h"
#include "runtime/plan/frame.h"

namespace graft::runtime {

namespace {

/// Autograd and its version counters know it, or do not.
c10::DispatchKeySet plain_keys(bool inference) {
  constexpr c10::DispatchKeySet kInference({c10::DispatchKey::CPU, c10::DispatchKey::AutocastCPU});
  constexpr c10::DispatchKeySet kAutograd(
      {c10::DispatchKey::AutogradCPU, c10::DispatchKey::ADInplaceOrView});
  return inference ? kInference : kInference | kAutograd;
}

/// Makes `tensor` an autograd view of what `of` is a view of, or of `of`.
void become_view(at::Tensor& tensor, const at::Tensor& of, torch::autograd::CreationMeta creation) {
  using torch::autograd::ViewInfo;
  const auto* meta = torch::autograd::impl::get_view_autograd_meta(of);
  const bool is_view = meta != nullptr && meta->has_bw_view();
  if (is_view) creation = propagate_creation_meta(meta->get_creation_meta(), creation);
  // Without a view function: autograd repeats a view of strided memory by as_strided.
  ViewInfo info(is_view ? meta->get_backward_view().base_ : of, nullptr, nullptr);
  torch::autograd::make_variable_differentiable_view(tensor, std::move(info), std::nullopt,
                                                     /*shared_view_info=*/true, creation);
  if (record::is_view_of_other_numbers(tensor)) record::follow_from_layout(tensor);
}

}  // namespace

at::Tensor make_own(const ViewSpec& spec, const c10::Storage& storage, int64_t offset,
                    bool inference) {
  const View& view = spec.view;
  // The constructor for views takes the keys as they are; the other one asks whether InferenceMode
  // is on.
  auto impl = c10::make_intrusive<at::TensorImpl>(at::TensorImpl::VIEW, c10::Storage(storage),
                                                  plain_keys(inference),
                                                  c10::scalarTypeToTypeMeta(view.dtype));
  if (spec.contiguous && offset == 0)
    impl->set_sizes_contiguous(view.sizes);
  else
    impl->set_sizes_and_strides(view.sizes, view.strides,
                                offset / static_cast<int64_t>(c10::elementSize(view.dtype)));
  return at::Tensor(std::move(impl));
}

at::Tensor make_view(const ViewSpec& spec, const c10::Storage& storage, int64_t offset) {
  return make_own(spec, storage, offset, c10::InferenceMode::is_enabled());
}

const c10::Storage& Frame::storage_of(const ViewSpec& spec, const Block& block) const {
  if (!block.is_callers() || stands_in(spec.place.block))
    return storages_[static_cast<size_t>(spec.place.block)];
  return carrier(spec, block).storage();
}

/// The caller's tensor over whose c10::Storage the view goes.
const at::Tensor& Frame::carrier(const ViewSpec& spec, const Block& block) const {
  if (spec.carrier_argument >= 0) return *args_.tensors[static_cast<size_t>(spec.carrier_argument)];
  if (spec.carrier_captured >= 0) return captured_[spec.carrier_captured];
  return block.kind == Block::Kind::Argument ? *args_.tensors[static_cast<size_t>(block.source)]
                                             : captured_[block.source];
}

at::Tensor Frame::view(const ViewSpec& spec) const {
  if (!stands_in(spec.place.block)) {
    if (spec.argument >= 0) return *args_.tensors[static_cast<size_t>(spec.argument)];
    if (spec.captured >= 0) return captured_[spec.captured];
  }
  const c10::Storage& storage = storage_of(spec, block(spec));
  int64_t offset = at(spec.place) - static_cast<const char*>(storage.data());
  return make_view(spec, storage, offset);
}

const at::Tensor* Frame::root(const Lineage& lineage, const at::Tensor* others) const {
  using Root = Lineage::Root;
  switch (lineage.root) {
    case Root::None:
      return nullptr;
    case Root::Argument:
      return args_.tensors[static_cast<size_t>(lineage.index)];
    case Root::Captured:
      return captured_ + lineage.index;
    case Root::Result:
      return others + lineage.index;
  }
  return nullptr;
}

/// A tensor object that eager makes at each call.
at::Tensor Frame::own_result(const ResultSpec& spec, const at::Tensor* others) const {
  const Lineage& lineage = spec.lineage;
  const bool stand_in = stands_in(spec.view.place.block);
  const at::Tensor* of = stand_in ? nullptr : root(lineage, others);
  const c10::Storage& storage =
      of != nullptr ? of->storage() : storage_of(spec.view, block(spec.view));
  at::Tensor made =
      make_own(spec.view, storage, at(spec.view.place) - static_cast<const char*>(storage.data()),
               lineage.inference);
  if (of == nullptr) return made;
  if (lineage.view)
    become_view(made, *of, static_cast<torch::autograd::CreationMeta>(lineage.creation));
  else
    made.unsafeGetTensorImpl()->set_version_counter(of->unsafeGetTensorImpl()->version_counter());
  return made;
}

at::Tensor Frame::result(const ResultSpec& spec, const at::Tensor* others) const {
  switch (spec.kind) {
    case ResultSpec::Kind::Undefined:
      return {};
    case ResultSpec::Kind::Same:
      return others[spec.index];
    case ResultSpec::Kind::Argument:
      return *args_.tensors[static_cast<size_t>(spec.index)];
    case ResultSpec::Kind::Captured:
      return captured_[spec.index];
    case ResultSpec::Kind::View:
      break;
  }
  return own_result(spec, others);
}

}  // namespace graft::runtime
