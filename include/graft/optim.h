// torch::optim's optimizers, compiled: the step of all parameters as one program.
//
//     torch::optim::AdamW adamw(model->parameters(), torch::optim::AdamWOptions(3e-4));
//     graft::Optimizer optimizer = graft::compile(adamw);
//     …
//     loss.backward();
//     optimizer.step();          // as adamw.step(), with its bits (of 16-bit parameters but for
//                                // the tails that docs/numerics.md tells of)
//
// Inside a compiled function, too: its plan makes the step, with the rate and count of the call.
// (So does one that calls adamw.step() itself, where Graft finds the object on the stack.)
//
// Parameters, options and state stay in the torch::optim object: learning rates are changed there,
// and it is saved and loaded as before. A learning rate or a count of steps that changes needs no
// new plan. SGD, Adam, AdamW, RMSprop and Adagrad are compiled; the first step of a parameter,
// which makes its state, sparse gradients, and other optimizers run as they are.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graft/graft.h"

namespace graft {

/// A compiled optimizer. Not thread-safe, as the one that it compiles.
class GRAFT_API Optimizer {
 public:
  /// `optimizer` outlives it. Options::name is the optimizer's kind where it is empty.
  explicit Optimizer(torch::optim::Optimizer& optimizer, Options options = {});
  ~Optimizer();
  Optimizer(Optimizer&& other) noexcept;
  Optimizer& operator=(Optimizer&& other) noexcept;

  /// As torch::optim::Optimizer::step(): updates all parameters that have a gradient. `closure`
  /// computes the loss with gradients and returns it; the result is undefined without one. Throws
  /// what the optimizer throws.
  ///
  /// The first step for which a plan could stand is made by the optimizer itself, and its bits are
  /// compared with Graft's formula, on copies of up to 64 MB of parameters. Where they differ,
  /// reason() says so and the optimizer makes every step.
  at::Tensor step(const std::function<at::Tensor()>& closure = nullptr);

  /// Why the optimizer itself made the last step; empty where compiled code may have.
  std::string reason() const;
  /// Of the function that updates the parameters. A plan serves one group of parameters.
  Report report() const;
  std::string explain() const;
  void wait() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// As torch::nn::utils::clip_grad_norm_, with its bits: scales the gradients of `parameters` in
/// place so that their joint norm is `max_norm` at most, and returns what it was, 0-dim (0 where no
/// parameter has a gradient). torch's returns a double, and so reads it on the host, which ends a
/// compiled step; this one may stand in it. Thread-safe as its operators are.
GRAFT_API at::Tensor clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm,
                                     double norm_type = 2.0);

inline Optimizer compile(torch::optim::Optimizer& optimizer, Options options = {}) {
  return Optimizer(optimizer, std::move(options));
}

}  // namespace graft
