// Graft: torch.compile for LibTorch programs, in C++.
//
//     auto rope = graft::compile(apply_rope);  // any callable on tensors, containers, scalars
//     auto [q2, k2] = rope(q, k, cos, sin);    // first call: eager, recorded
//     auto [q3, k3] = rope(q, k, cos, sin);    // later calls: compiled, once proven
//     std::cout << rope.report();              // what was compiled, what was not, and why
//
// Contract, as jax.jit's: control flow inside the function may depend on shapes, dtypes and scalar
// arguments, not on tensor data. Reading data (`item()`) is seen and reported as a graph break; the
// function then stays eager.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "graft/detail/core.h"
#include "graft/detail/flatten.h"
#include "graft/options.h"
#include "graft/pool.h"
#include "graft/report.h"

namespace graft {

/// A function that is watched, compiled and proven. Copies share one compiled core.
/// Thread-safety: any number of threads may call one object at once, cold or warm.
/// Errors: whatever the wrapped function throws; Graft's own failures never reach the caller, they
/// turn into an eager call and a line in the report (except under Options::fullgraph and
/// Stance::FailOnRerecord, which throw graft::Error).
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
    detail::Call<F, Result, Args...> call(state_->f, args...);
    state_->core.call(call);
    return call.take_result();
  }

  /// What happened so far: graphs, breaks, operators, compile time, verdict and why. A snapshot.
  Report report() const { return state_->core.report(); }
  /// The recorded operators, the loop program before and after each pass, the kernels and pass
  /// times, as text.
  std::string explain() const { return state_->core.explain(); }
  /// Blocks until no compilation of this function is under way.
  void wait() const { state_->core.wait(); }
  /// Forgets every plan; the next call records again.
  void reset() const { state_->core.reset(); }

 private:
  struct State {
    State(F fn, Options options) : f(std::move(fn)), core(std::move(options)) {}
    F f;
    detail::Core core;
  };
  std::shared_ptr<State> state_;
};

/// Wraps `f`. Nothing is compiled until the first call.
template <class F>
auto compile(F&& f, Options options = {}) {
  return Compiled<std::decay_t<F>>(std::forward<F>(f), std::move(options));
}

}  // namespace graft
