// Cuts a program that ends with its own backward in two: a forward that is run now, and a backward
// that is run when the gradients of its results come.
//
// What the backward uses of the forward is either kept in memory from one to the other or computed
// again from what is there: the caller's tensors and what is kept. A minimum cut decides, over the
// storages that the backward needs, between the time of storing and loading each and the time of
// computing it once more. What ATen's operators make (products, random numbers) is never computed
// again, and what is a result or the caller's anyway costs only its loads.
//
//     %2 = f(%0)            forward              %2 = f(%0)   →  results %2
//     %4 = g'(%3, %2)       (%3: gradient)
//     %5 = f'(%4, %0)       backward of %3 %0    %2 = f(%0)  %4 = g'(%3, %2)  %5 = f'(%4, %0)
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/program.h"
#include "ir/target.h"

namespace graft::passes {

/// Where the parts of a joint program meet.
struct Seam {
  size_t arguments = 0;  ///< those behind are the incoming gradients
  size_t results = 0;    ///< of those returned; the ones behind are the outgoing gradients
  int operators = 0;     ///< recorded ones with this index and above are the backward's
};

struct PartitionSettings {
  ir::Target target;
  /// Compute again whatever can be, so that the least memory is kept.
  bool least_memory = false;
};

struct Partition {
  ir::Program forward;   ///< of the arguments in front; results: its own, then what is kept
  ir::Program backward;  ///< of all arguments, then what is kept; results: the outgoing gradients
  /// As storages of the parts: what is kept, beside the caller's tensors.
  std::vector<int> kept;
  int64_t kept_bytes = 0;  ///< of those that are no results
  /// Likewise those, of the caller's and kept, of which the backward computes again what the
  /// forward did.
  std::vector<int> recomputed_from;
  /// Why it cannot be cut. Everything else is empty then.
  std::optional<std::string> refused;
};

Partition partition(const ir::Program& joint, const Seam& seam, const PartitionSettings& settings);

/// The forward, with nothing kept; the backward, with all of it computed once more. It has `kept`
/// undefined arguments where the backward has what is kept.
ir::Program whole_forward(const ir::Program& joint, const Seam& seam);
ir::Program whole_backward(const ir::Program& joint, const Seam& seam, size_t kept);

}  // namespace graft::passes
