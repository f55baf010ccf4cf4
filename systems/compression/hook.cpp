#include <torch/csrc/distributed/c10d/comm.hpp>

#include <unordered_map>
#include <vector>

#include "graft/systems/gradient_compression.h"

namespace graft::systems {
namespace {

class Hook final : public c10d::CommHookInterface {
 public:
  Hook(std::shared_ptr<Compressor> compressor, Group& group)
      : compressor_(std::move(compressor)), group_(group) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    std::vector<std::vector<int64_t>> shapes;
    for (const at::Tensor& gradient : bucket.getGradients())
      shapes.push_back(gradient.sizes().vec());
    const at::Tensor buffer = bucket.getBuffer();
    std::vector<int64_t> parameters;
    for (const at::Tensor& parameter : bucket.getParameters())
      parameters.push_back(number_of(parameter));
    compressor_->reduce(group_, buffer, bucket.getIndex(), shapes, parameters);
    auto done =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    done->markCompleted(c10::IValue(std::vector<at::Tensor>{buffer}));
    return done;
  }

  at::Tensor parseHookResult(const c10::IValue& result) override {
    return c10d::detail::parseCppCommHookResult(result);
  }

 private:
  /// By the order in which they come first: addresses would differ between processes.
  int64_t number_of(const at::Tensor& parameter) {
    const auto [found, is_new] = numbers_.emplace(parameter.unsafeGetTensorImpl(), met_.size());
    if (is_new) met_.push_back(parameter);  // alive, so that no other one gets its address
    return static_cast<int64_t>(found->second);
  }

  std::shared_ptr<Compressor> compressor_;
  std::unordered_map<const c10::TensorImpl*, size_t> numbers_;
  std::vector<at::Tensor> met_;
  Group& group_;
};

}  // namespace

std::unique_ptr<c10d::CommHookInterface> comm_hook(std::shared_ptr<Compressor> compressor,
                                                   Group& group) {
  TORCH_CHECK_VALUE(compressor != nullptr, "comm_hook: the compressor is null");
  return std::make_unique<Hook>(std::move(compressor), group);
}

}  // namespace graft::systems
