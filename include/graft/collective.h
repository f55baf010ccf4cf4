// Sums over several processes, inside compiled functions.
//
// Operators of c10d's do not tell a recorder when their results are there, so a function that calls
// them stays eager. These two do: between them the tensor belongs to the communication, and a plan
// starts it as soon as the tensor's values are known, while other work goes on. A plan keeps the
// order in which the function starts and awaits them, so that processes of which some run compiled
// and some eagerly fit together. graft::systems::Group has them for c10d's process groups.
#pragma once

#include <ATen/core/Tensor.h>
#include <graft/export.h>

#include <memory>
#include <string>

namespace graft {

/// A sum over processes, in place: what one process's tensor has more, the result has more, for
/// the proof of a plan is made with the sum that eager got. Tensors are dense ones of the CPU.
class GRAFT_API Collective {
 public:
  virtual ~Collective();
  /// Begins; several may be under way, of tensors that share no memory.
  virtual void start(const at::Tensor& tensor) = 0;
  /// Returns when the tensor holds the result. Ends are awaited in any order.
  virtual void wait(const at::Tensor& tensor) = 0;
};

/// Makes `collective` known in this process by a name, which functions are recorded with; a plan
/// finds it at each call. Null: no longer known. Thread-safe. Throws std::invalid_argument for a
/// name that another one has.
GRAFT_API void register_collective(const std::string& name,
                                   const std::shared_ptr<Collective>& collective);

/// Operators of the dispatcher's, recorded as such. Throw std::invalid_argument for a name that is
/// not known, and what the collective throws.
GRAFT_API void start_collective(const at::Tensor& tensor, const std::string& name);
GRAFT_API void await_collective(const at::Tensor& tensor, const std::string& name);

}  // namespace graft
