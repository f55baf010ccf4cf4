// Averages of gradients over processes, with fewer bytes sent than all_reduce sends.
//
//     const std::shared_ptr<Compressor> compressor = power_sgd({.rank = 2});
//     compressor->reduce(group, gradient);                              // in place, or
//     reducer.register_comm_hook(comm_hook(compressor, group));         // in c10d's reducer
//
// What a compressor leaves out is not lost where it has error feedback: it is remembered, and added
// to the next gradient (Seide et al. 2014, "1-bit stochastic gradient descent"; Karimireddy et al.
// 2019).
#pragma once

#include <ATen/core/Tensor.h>
#include <graft/export.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graft/systems/processes.h"

namespace c10d {
class CommHookInterface;
}

namespace graft::systems {

/// One way of averaging a gradient over a group. It is lossy, but the result has the same bits on
/// every process, and in each run with the same number of threads.
///
/// State: what error feedback remembers, and PowerSGD's factors, are kept per `bucket`, each as
/// large as the gradient (or its factors) and in fp32, of this process alone. A checkpoint need not
/// have it: training goes on without what was remembered.
///
/// Values that are not finite: where a process's gradient has any, the average has some, too, if
/// not in the same places, and none of it is remembered.
///
/// Not thread-safe. All processes must have compressors of one kind with equal options.
class GRAFT_API Compressor {
 public:
  virtual ~Compressor();
  virtual std::string name() const = 0;

  /// Replaces `gradient` by its average over the group; a group of one leaves it as it is. It is a
  /// contiguous CPU tensor of fp32, or bf16 or fp16, which are computed in fp32. `bucket` tells
  /// gradients apart whose state is kept; one that comes with other shapes or parameters than
  /// before, as when c10d's reducer deals parameters anew, starts anew. `shapes`: of the parameters
  /// whose gradients lie in it one after the other, for compressors that look at matrices; empty:
  /// `gradient`'s. `parameters`: which these are, by any numbers that all processes give them
  /// alike.
  ///
  /// Throws c10::ValueError for other tensors and, in a bucket's first call, on every process where
  /// sizes, shapes, parameters or compressors differ; GroupError where communication fails.
  void reduce(Group& group, const at::Tensor& gradient, size_t bucket = 0,
              const std::vector<std::vector<int64_t>>& shapes = {},
              const std::vector<int64_t>& parameters = {});

  /// Bytes that this process sent so far, by the sizes of what it passed to collectives: an
  /// all_gather sends it to n - 1 others, a ring's all_reduce 2 (n - 1) / n of it.
  int64_t bytes_sent() const { return bytes_sent_; }
  /// Forgets all state, as after a new start of training.
  void reset();

 protected:
  using Shapes = std::vector<std::vector<int64_t>>;
  /// `gradient`: flat fp32, in place, not empty; of two processes or more. `shapes`: empty for a
  /// gradient of one dimension that came without.
  virtual void average(Group& group, const at::Tensor& gradient, size_t bucket,
                       const Shapes& shapes) = 0;
  virtual void forget(size_t) {}  ///< the state of a bucket
  /// Numbers that must be equal on all processes: the kind and its options.
  virtual std::vector<double> options() const = 0;

  /// These count what they send.
  void all_reduce(Group& group, const at::Tensor& tensor);
  at::Tensor all_gather(Group& group, const at::Tensor& tensor);
  void count_sent(int64_t bytes) { bytes_sent_ += bytes; }

 private:
  /// What a bucket's state is of: values, shapes and parameters.
  using Content = std::vector<int64_t>;
  void agree(Group& group, const Content& content, size_t bucket);

  int64_t bytes_sent_ = 0;
  std::unordered_map<size_t, Content> contents_;  ///< of buckets that all processes agreed on
};

/// All of it, by all_reduce: what the others are compared with.
GRAFT_API std::shared_ptr<Compressor> uncompressed();

struct TopKOptions {
  /// Of the values, those of largest magnitude are sent, each with its index: 8 bytes. At least
  /// one is.
  double share = 0.01;
  bool error_feedback = true;
};
/// Every process sends to all others, so that the bytes grow with their number.
GRAFT_API std::shared_ptr<Compressor> top_k(const TopKOptions& options = {});

struct PowerSgdOptions {
  int64_t rank = 2;
  /// So many first calls of each bucket are not compressed.
  int64_t start_step = 0;
  bool error_feedback = true;
  /// Iterates from the factors of the call before, not from random ones.
  bool warm_start = true;
  uint64_t seed = 0;  ///< equal on all processes
};
/// Each matrix (parameter of two or more dimensions, its first against the others) as a product of
/// two factors of `rank` columns (Vogels et al. 2019). Parameters for which factors are not smaller
/// are averaged as they are. A gradient of one dimension without shapes is one matrix, as nearly
/// square as its length can be divided.
GRAFT_API std::shared_ptr<Compressor> power_sgd(const PowerSgdOptions& options = {});

struct EightBitOptions {
  int64_t block = 256;  ///< values that share a scale of 4 bytes
  /// Rounds up or down by chance, right on average, instead of to the nearest.
  bool stochastic = false;
  uint64_t seed = 0;
};
/// Whole numbers from -127 to 127 times a scale per block. Each process sums one part of the
/// gradient for all and sends the average on, as 8 bits again: two roundings, and bytes that do not
/// grow with the number of processes.
GRAFT_API std::shared_ptr<Compressor> eight_bit(const EightBitOptions& options = {});

struct OneBitOptions {
  int64_t block = 1024;  ///< values that share a scale of 4 bytes, the mean of their magnitudes
  bool error_feedback = true;
};
/// Signs. Every process sends to all others.
GRAFT_API std::shared_ptr<Compressor> one_bit(const OneBitOptions& options = {});

/// A communication hook for c10d::Reducer::register_comm_hook. It reduces each bucket when the
/// reducer has it ready, in the thread of the backward, and returns when that is done. Errors are
/// those of reduce(). The group must outlive it. It holds the parameters that it met, so that it
/// knows them again when the reducer deals them into other buckets.
GRAFT_API std::unique_ptr<c10d::CommHookInterface> comm_hook(std::shared_ptr<Compressor> compressor,
                                                             Group& group);

}  // namespace graft::systems
