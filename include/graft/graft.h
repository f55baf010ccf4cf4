// Graft: torch.compile for LibTorch programs, in C++.
//
//     auto rope = graft::compile(apply_rope);  // any callable on tensors, containers, scalars
//     auto [q2, k2] = rope(q, k, cos, sin);    // first call: eager, recorded
//     auto [q3, k3] = rope(q, k, cos, sin);    // later calls: compiled, once proven
//     std::cout << rope.report();              // what was compiled, what was not, and why
//
// Contract, as jax.jit's: control flow inside the function may depend on shapes, dtypes and scalar
// arguments, and on conditions and whole numbers read from tensors (item<bool>(), equal()), of
// whose recorded values a plan is; the function's only effects are its results and in-place changes
// of tensors. docs/using.md explains all of the following.
//
// - Arguments. Tensors may hold other data at each call. Other dtypes, sizes, strides, overlaps,
//   requires_grad, grad modes, or *values* of numbers and strings need a plan of their own: the
//   function is recorded again. A number that changes with each call is a graft::Number.
// - Training: a function that calls backward() is recorded whole, and a plan leaves gradients as
//   eager does. Of a function whose results require grad, the backward that comes after the call is
//   compiled, too. Whether an argument comes with a gradient is part of its layout.
// - Captured tensors: those that the function uses and that are not arguments. They are read at
//   each call, so changes in place are seen. A plan holds them weakly, so it keeps no model alive.
//   When one is freed, as a parameter that was replaced, the function is recorded again.
// - Not seen: captured numbers that change, and a captured reference that switches to another
//   tensor while the first is still alive (where these are variables on the stack, some later call
//   is compared with eager again and finds it); a generator that is replaced by another; C++ code
//   that reads or writes tensors through pointers (data_ptr) or has other effects (output, counters
//   on the heap). Call reset() after such a change, or set Options::audit_every. Other data that
//   operators read (item<float>()) is seen, and is a graph break unless constants alone make it.
// - Graph breaks: the function stays eager, and report() gives the reason. Besides reading data:
//   results that require grad and share memory with arguments, hooks on what the function
//   differentiates, tensors that are not dense CPU tensors (CUDA, sparse, quantised), result sizes
//   that depend on data, random generators that the function makes or gives a seed, and tensors
//   that the function keeps.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "graft/attention.h"
#include "graft/cache.h"
#include "graft/detail/core.h"
#include "graft/detail/flatten.h"
#include "graft/number.h"
#include "graft/options.h"
#include "graft/pool.h"
#include "graft/report.h"
#include "graft/version.h"

namespace torch::optim {
class Optimizer;
}

namespace graft {

/// A function that is recorded, compiled and proven. Copies share the callable and all plans, which
/// live until the last copy is gone. Results may outlive it.
///
/// Thread-safety: any number of threads may call one object at once, at any stage, if the wrapped
/// function itself may be called so. Calls while another thread records, or while the background
/// thread compiles, run eagerly. Changing a tensor that another thread's call uses is a data race,
/// as with eager calls.
///
/// Errors: whatever the wrapped function throws. A failure of Graft's own turns into an eager call
/// and a line in the report; graft::Error is thrown under Options::fullgraph (after the recorded
/// call ran, so that what it writes is written) and Stance::FailOnRerecord, and for a failure after
/// the plan changed the caller's tensors, since eager cannot run again then. The constructor throws
/// it for Options::skip_passes with names that are no optional passes.
template <class F>
class Compiled {
 public:
  Compiled(F f, Options options)
      : state_(std::make_shared<State>(std::move(f), std::move(options))) {}

  template <class... Args>
  auto operator()(Args&&... args) const {
    using Result = std::invoke_result_t<const F&, Args&&...>;
    detail::check_arguments<std::decay_t<Args>...>();
    detail::check_result<std::decay_t<Result>>();
    detail::Call<F, Result, Args...> call(*state_, args...);
    state_->core.call(call);
    return call.take_result();
  }

  /// What happened so far: graphs, breaks, operators, compile time, verdict and why. A snapshot.
  Report report() const { return state_->core.report(); }
  /// As text: the report, the recorded operators and what became of each, the loop program as
  /// lowered, the program or schedule after each pass, pass times, the closest decisions, the
  /// kernels as C++, and the name of the code generator.
  std::string explain() const { return state_->core.explain(); }
  /// What the passes chose by estimated cost, in order; empty before a record. Scheduled anew.
  std::vector<Decision> decisions() const { return state_->core.decisions(); }
  /// Blocks until no compilation of this function is under way.
  void wait() const { state_->core.wait(); }
  /// Forgets every plan; the next call is recorded again.
  void reset() const { state_->core.reset(); }
  /// Writes the plans that there are into a file, for graft::load in other processes on the same
  /// kind of machine. Replaces the file as a whole. Throws graft::Error where there is no plan yet
  /// (call the function, then wait()) or the file cannot be written.
  void save(const std::string& path) const { state_->core.save(path); }

 private:
  struct State : detail::Shared<F> {
    State(F fn, Options options) : detail::Shared<F>(std::move(fn)), core(std::move(options)) {}
    detail::Core core;
  };
  std::shared_ptr<State> state_;
};

/// Wraps a copy of `f`, whose operator() must be const. Nothing is compiled before the first call.
/// (graft/optim.h compiles torch::optim's optimizers.)
template <class F>
  requires(!std::is_base_of_v<torch::optim::Optimizer, std::decay_t<F>>)
auto compile(F&& f, Options options = {}) {
  return Compiled<std::decay_t<F>>(std::forward<F>(f), std::move(options));
}

/// f.save(path).
template <class F>
void save(const Compiled<F>& f, const std::string& path) {
  f.save(path);
}

}  // namespace graft
