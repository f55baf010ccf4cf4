#include "record/other_numbers.h"

#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <c10/core/ScalarType.h>
#include <torch/csrc/autograd/function.h>  // variable.h of torch 2.15 lacks it
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <optional>
#include <vector>

namespace graft::record {

namespace {

/// The same view of a base, by layout.
class OtherNumbers : public torch::autograd::ViewFunc {
 public:
  OtherNumbers(const at::Tensor& view, const at::Tensor& base)
      : complex_(view.is_complex()),
        sizes_(view.sizes().vec()),
        strides_(view.strides().vec()),
        ahead_(complex_ ? 2 * view.storage_offset() - base.storage_offset()
                        : view.storage_offset() - 2 * base.storage_offset()) {}

  at::Tensor operator()(const at::Tensor& base) const override {
    if (!complex_) {
      const at::Tensor parts = at::view_as_real(base);
      return at::as_strided(parts, sizes_, strides_, parts.storage_offset() + ahead_);
    }
    std::vector<int64_t> sizes(sizes_), strides;
    for (int64_t stride : strides_) strides.push_back(2 * stride);
    sizes.push_back(2), strides.push_back(1);
    return at::view_as_complex(
        at::as_strided(base, sizes, strides, base.storage_offset() + ahead_));
  }
  std::unique_ptr<ViewFunc> clone_and_set(
      std::optional<std::vector<c10::SymInt>> /*symints*/,
      std::optional<std::vector<at::Tensor>> /*tensors*/) const override {
    return std::make_unique<OtherNumbers>(*this);
  }

 private:
  bool complex_;
  std::vector<int64_t> sizes_, strides_;
  int64_t ahead_;  ///< real numbers from the base's first to the view's
};

}  // namespace

bool is_view_of_other_numbers(const at::Tensor& tensor) {
  if (!tensor.is_view() || tensor.is_neg() || tensor.is_conj()) return false;
  const auto& info = torch::autograd::impl::get_view_autograd_meta(tensor)->get_backward_view();
  const c10::ScalarType from = info.base_.scalar_type(), to = tensor.scalar_type();
  return from != to && c10::toRealValueType(from) == c10::toRealValueType(to);
}

void follow_from_layout(const at::Tensor& tensor) {
  // The view's own data; autograd has no other way to set it once the view is made.
  auto& info = const_cast<torch::autograd::ViewInfo&>(
      torch::autograd::impl::get_view_autograd_meta(tensor)->get_backward_view());
  const OtherNumbers repeats(tensor, info.base_);
  info.view_fn_ = std::make_unique<OtherNumbers>(repeats);
  info.rev_view_fn_ = [repeats, sizes = info.base_.sizes().vec(),
                       strides = info.base_.strides().vec(),
                       type = info.base_.scalar_type()](const at::Tensor& view) {
    at::Tensor base = at::empty_strided(sizes, strides, type).zero_();
    repeats(base).copy_(view);
    return base;
  };
}

}  // namespace graft::record
