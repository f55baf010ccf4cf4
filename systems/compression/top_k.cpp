#include <ATen/ops/empty.h>
#include <ATen/ops/nan_to_num.h>

#include <algorithm>
#include <cmath>

#include "graft/systems/gradient_compression.h"
#include "systems/compression/codec.h"
#include "systems/compression/remainders.h"

namespace graft::systems {
namespace {

class TopK final : public Compressor {
 public:
  explicit TopK(const TopKOptions& options) : options_(options) {
    TORCH_CHECK_VALUE(options.share > 0 && options.share <= 1, "top_k: the share came as ",
                      options.share, "; expected more than 0 and at most 1, as 0.01");
  }
  std::string name() const override { return "top_k"; }

 protected:
  void average(Group& group, const at::Tensor& gradient, size_t bucket, const Shapes&) override {
    const at::Tensor all =
        options_.error_feedback ? remainders_.added_to(gradient, bucket) : gradient;
    const int64_t count = gradient.numel();
    const int64_t k =
        std::max<int64_t>(1, std::llround(options_.share * static_cast<double>(count)));
    // Indices, and behind them values.
    const at::Tensor message = at::empty({2, k}, at::kInt);
    const at::Tensor sent = message[1].view(at::kFloat);
    float* values = all.mutable_data_ptr<float>();
    const std::vector<int32_t> indices = largest(values, count, k);
    std::copy(indices.begin(), indices.end(), message.mutable_data_ptr<int32_t>());
    bool finite = true;
    for (int64_t i = 0; i < k; ++i) {
      float& value = values[indices[static_cast<size_t>(i)]];
      sent.mutable_data_ptr<float>()[i] = value;
      finite = finite && std::isfinite(value);
      value = 0;
    }
    // More of these may be left than were sent.
    if (!finite && options_.error_feedback) all.nan_to_num_(0, 0, 0);
    const at::Tensor messages = all_gather(group, message);
    gradient.zero_();
    float* sums = gradient.mutable_data_ptr<float>();
    const float weight = 1.0f / static_cast<float>(group.size());
    for (int rank = 0; rank < group.size(); ++rank) {
      const int32_t* at = messages[rank][0].const_data_ptr<int32_t>();
      const at::Tensor received = messages[rank][1].view(at::kFloat);
      for (int64_t i = 0; i < k; ++i) sums[at[i]] += weight * received.const_data_ptr<float>()[i];
    }
  }
  void forget(size_t bucket) override { remainders_.forget(bucket); }
  std::vector<double> options() const override {
    return {options_.share, double(options_.error_feedback)};
  }

 private:
  TopKOptions options_;
  Remainders remainders_;
};

}  // namespace

std::shared_ptr<Compressor> top_k(const TopKOptions& options) {
  return std::make_shared<TopK>(options);
}

}  // namespace graft::systems
