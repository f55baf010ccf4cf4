#include <ATen/ops/as_strided.h>
#include <c10/core/InferenceMode.h>

#include "runtime/plan/frame.h"

namespace graft::runtime {

at::Tensor make_view(const ViewSpec& spec, const c10::Storage& storage, int64_t offset) {
  const View& view = spec.view;
  auto impl = c10::make_intrusive<at::TensorImpl>(c10::Storage(storage),
                                                  c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                  c10::scalarTypeToTypeMeta(view.dtype));
  if (spec.contiguous && offset == 0)
    impl->set_sizes_contiguous(view.sizes);
  else
    impl->set_sizes_and_strides(view.sizes, view.strides,
                                offset / static_cast<int64_t>(c10::elementSize(view.dtype)));
  return at::Tensor(std::move(impl));
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

/// A view of the caller's tensor, as eager returns it: ATen makes it where autograd may ask what
/// it is a view of.
at::Tensor Frame::view_of_callers(const ViewSpec& spec) const {
  const at::Tensor& base = carrier(spec, block(spec));
  int64_t offset = at(spec.place) - static_cast<const char*>(base.storage().data());
  if (!c10::InferenceMode::is_enabled() && base.scalar_type() == spec.view.dtype)
    return at::as_strided(base, spec.view.sizes, spec.view.strides,
                          offset / static_cast<int64_t>(c10::elementSize(spec.view.dtype)));
  at::Tensor made = make_view(spec, base.storage(), offset);
  if (!made.is_inference() && !base.is_inference())
    made.unsafeGetTensorImpl()->set_version_counter(base.unsafeGetTensorImpl()->version_counter());
  return made;
}

at::Tensor Frame::result(const ResultSpec& spec, const at::Tensor* earlier) const {
  switch (spec.kind) {
    case ResultSpec::Kind::Undefined:
      return {};
    case ResultSpec::Kind::Same:
      return earlier[spec.index];
    case ResultSpec::Kind::Argument:
      return *args_.tensors[static_cast<size_t>(spec.index)];
    case ResultSpec::Kind::Captured:
      return captured_[spec.index];
    case ResultSpec::Kind::View:
      break;
  }
  int b = spec.view.place.block;
  if (block(spec.view).is_callers() && !stands_in(b)) return view_of_callers(spec.view);
  const c10::Storage& storage = storages_[static_cast<size_t>(b)];
  at::Tensor made =
      make_view(spec.view, storage, at(spec.view.place) - static_cast<const char*>(storage.data()));
  if (spec.sibling >= 0 && !made.is_inference())
    made.unsafeGetTensorImpl()->set_version_counter(
        earlier[spec.sibling].unsafeGetTensorImpl()->version_counter());
  return made;
}

}  // namespace graft::runtime
