// Data-parallel training: each process has a part of the batch, and all have one model.
//
//     auto group = graft::systems::Group::join();
//     graft::systems::DataParallel parallel(model->parameters(), group);
//     auto step = graft::compile([&](const at::Tensor& x, const at::Tensor& y) {
//       at::Tensor loss = criterion(model->forward(x), y);
//       loss.backward();
//       parallel.average_gradients();
//       optimizer.step();
//       return loss.detach();
//     });
//
// Gradients are summed in buckets, the last parameters' first. Inside a compiled function a bucket
// is on its way as soon as its gradients are computed, while backward goes on with the layers
// before; eagerly all of them are sent after backward.
#pragma once

#include <ATen/core/Tensor.h>
#include <graft/export.h>
#include <graft/systems/processes.h>

#include <memory>
#include <vector>

namespace graft::systems {

struct DataParallelOptions {
  int64_t bucket_bytes = int64_t{25} << 20;  ///< a bucket is as large, or one parameter larger
  /// The first bucket is small, so that the first sum starts soon.
  int64_t first_bucket_bytes = int64_t{1} << 20;
};

/// Thread-safety: as the group's. Parameters are dense floating tensors of the CPU; those that get
/// no gradient in a process count as zeros there.
class GRAFT_API DataParallel {
 public:
  /// Gives all processes the values that process 0 has. Throws GroupError where their parameters
  /// have other sizes, and std::invalid_argument for one that is not dense.
  DataParallel(std::vector<at::Tensor> parameters, std::shared_ptr<Group> group,
               const DataParallelOptions& options = {});

  /// Each .grad becomes the average over the processes: the gradient of the whole batch where each
  /// process has an equal part of it and the loss is a mean. Written
  /// in place; one that is not there is made.
  void average_gradients();
  /// The average of a value that each process has, such as its loss.
  at::Tensor average(const at::Tensor& value);

  /// Positions of parameters, by bucket, in the order in which they are sent.
  const std::vector<std::vector<size_t>>& buckets() const { return buckets_; }

 private:
  std::vector<at::Tensor> parameters_;
  std::shared_ptr<Group> group_;
  std::vector<std::vector<size_t>> buckets_;
};

}  // namespace graft::systems
