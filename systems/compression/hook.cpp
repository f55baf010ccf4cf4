#include <torch/csrc/distributed/c10d/comm.hpp>

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
    compressor_->reduce(group_, buffer, bucket.getIndex(), shapes);
    auto done =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    done->markCompleted(c10::IValue(std::vector<at::Tensor>{buffer}));
    return done;
  }

  at::Tensor parseHookResult(const c10::IValue& result) override {
    return c10d::detail::parseCppCommHookResult(result);
  }

 private:
  std::shared_ptr<Compressor> compressor_;
  Group& group_;
};

}  // namespace

std::unique_ptr<c10d::CommHookInterface> comm_hook(std::shared_ptr<Compressor> compressor,
                                                   Group& group) {
  TORCH_CHECK_VALUE(compressor != nullptr, "comm_hook: the compressor is null");
  return std::make_unique<Hook>(std::move(compressor), group);
}

}  // namespace graft::systems
