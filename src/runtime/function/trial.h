// Plans that are timed beside each other, on data of their own.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <span>
#include <vector>

#include "runtime/plan/plan.h"

namespace graft::runtime {

/// Tensors like those of a call: memory of their own, arguments that overlap overlap.
class OwnData {
 public:
  OwnData(const Plan& plan, size_t arguments);
  OwnData(const OwnData&) = delete;
  OwnData& operator=(const OwnData&) = delete;

  /// Seconds that a plan over the same signature takes; infinity where it gives up.
  double seconds(const Plan& plan) const;

 private:
  at::Tensor tensor(const ViewSpec& spec) const;

  std::vector<c10::Storage> storages_;
  std::vector<at::Tensor> arguments_, captured_;
  detail::FlatArgs args_;
};

struct Pair {
  double before = 0, other = 0;  ///< seconds
};
/// The least of a few runs in turns, for at most `left` seconds: whatever else the machine does
/// only adds. In front of each run this thread reads `between`, as the rest of a program reads its
/// own memory between two calls.
Pair race(const OwnData& data, const Plan& before, const Plan& other, double left,
          std::span<const char> between = {});

}  // namespace graft::runtime
