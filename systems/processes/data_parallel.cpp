#include "graft/systems/data_parallel.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>

#include <utility>

namespace graft::systems {
namespace {

/// Each process tells its sizes: a mistake here would be a hang, or sums of unlike parameters.
void check_alike(const std::vector<at::Tensor>& parameters, Group& group) {
  int64_t elements = 0;
  uint64_t order = 0;
  for (const at::Tensor& p : parameters) {
    elements += p.numel();
    order = order * 31 + static_cast<uint64_t>(p.numel()) + static_cast<uint64_t>(p.scalar_type());
  }
  const std::vector<int64_t> facts{static_cast<int64_t>(parameters.size()), elements,
                                   static_cast<int64_t>(order)};
  const at::Tensor all = group.all_gather(at::tensor(facts));
  for (int rank = 0; rank < group.size(); ++rank)
    if (!all[rank].equal(all[0]))
      throw GroupError(c10::str("DataParallel: process ", rank, " has ",
                                all[rank][0].item<int64_t>(), " parameters of ",
                                all[rank][1].item<int64_t>(), " elements, process 0 has ",
                                all[0][0].item<int64_t>(), " of ", all[0][1].item<int64_t>(),
                                ", or they come in another order: make the same model in each"));
}

}  // namespace

DataParallel::DataParallel(std::vector<at::Tensor> parameters, std::shared_ptr<Group> group,
                           const DataParallelOptions& options)
    : parameters_(std::move(parameters)), group_(std::move(group)) {
  for (size_t k = 0; k < parameters_.size(); ++k) {
    const at::Tensor& p = parameters_[k];
    TORCH_CHECK_VALUE(
        p.defined() && p.device().is_cpu() && p.layout() == at::kStrided &&
            at::isFloatingType(p.scalar_type()),
        "DataParallel: parameter ", k, " is ",
        p.defined() ? c10::str("a ", p.layout(), " tensor of ", p.scalar_type(), " on ", p.device())
                    : std::string("undefined"),
        "; expected a dense floating tensor of the CPU");
  }
  check_alike(parameters_, *group_);
  const at::NoGradGuard no_grad;
  for (const at::Tensor& p : parameters_) {
    const at::Tensor values = p.contiguous();
    group_->broadcast(values);
    if (!values.is_same(p)) p.copy_(values);
  }
  // Backward comes to the last layers first.
  int64_t bytes = 0;
  for (size_t k = parameters_.size(); k-- > 0;) {
    const int64_t limit = buckets_.size() <= 1 ? options.first_bucket_bytes : options.bucket_bytes;
    const bool other_dtype =
        !buckets_.empty() &&
        parameters_[buckets_.back().back()].scalar_type() != parameters_[k].scalar_type();
    if (buckets_.empty() || bytes >= limit || other_dtype) buckets_.emplace_back(), bytes = 0;
    buckets_.back().push_back(k);
    bytes += static_cast<int64_t>(parameters_[k].nbytes());
  }
}

void DataParallel::average_gradients() {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> sent;
  std::vector<Pending> pending;
  for (const std::vector<size_t>& bucket : buckets_) {
    std::vector<at::Tensor> parts;
    for (size_t k : bucket) {
      const at::Tensor& gradient = parameters_[k].grad();
      parts.push_back((gradient.defined() ? gradient : at::zeros_like(parameters_[k])).flatten());
    }
    sent.push_back(at::cat(parts).mul_(1.0 / group_->size()));
    pending.push_back(group_->start_all_reduce(sent.back()));
  }
  for (size_t b = 0; b < buckets_.size(); ++b) {
    pending[b].wait();
    int64_t first = 0;
    for (size_t k : buckets_[b]) {
      const at::Tensor& p = parameters_[k];
      const at::Tensor average = sent[b].narrow(0, first, p.numel()).view(p.sizes());
      // Copied: a gradient that is a part of its bucket would keep all of it.
      if (p.grad().defined())
        p.grad().copy_(average);
      else
        p.mutable_grad() = average.clone();
      first += p.numel();
    }
  }
}

at::Tensor DataParallel::average(const at::Tensor& value) {
  at::Tensor sum = value.detach().clone().contiguous();
  group_->all_reduce(sum);
  return sum.div_(group_->size());
}

}  // namespace graft::systems
