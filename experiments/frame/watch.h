// The functions of a program, watched while it runs: how often and how long, with which arguments.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graft/workload.h"

namespace graft::experiments {

/// Not thread-safe. Functions that it watches must not outlive it.
class Watch {
 public:
  struct Seen {
    std::string name;
    std::vector<double> pass_ms = {};  ///< all calls of a pass together
    int64_t calls = 0;                 ///< in a pass
    /// The function on the arguments of its first call.
    std::function<workloads::Instance()> instance = {};
    double first_bytes = 0;  ///< of these arguments and the result
  };

  /// Puts a watched function in f's place. An empty one stays empty.
  template <class R, class... A>
  void in(const std::string& name, std::function<R(A...)>& f) {
    if (!f) return;
    const size_t at = seen_.size();
    seen_.push_back({name});
    f = [this, at, inner = f](A... args) -> R {
      Seen& seen = seen_[at];
      if (!seen.instance)
        seen.instance = [inner, ... kept = std::decay_t<A>(args)] {
          return workloads::instance_of(inner, kept...);
        };
      const auto start = std::chrono::steady_clock::now();
      R result = inner(args...);
      const std::chrono::duration<double, std::milli> took =
          std::chrono::steady_clock::now() - start;
      if (seen.first_bytes == 0) {
        workloads::Tensors all;
        workloads::detail::flatten(result, all);
        (workloads::detail::flatten(args, all), ...);
        for (const at::Tensor& t : all) seen.first_bytes += static_cast<double>(t.nbytes());
      }
      seen.pass_ms.back() += took.count();
      ++seen.calls;
      return result;
    };
  }

  /// Runs the program once.
  void pass(const std::function<void()>& program) {
    for (Seen& seen : seen_) seen.pass_ms.push_back(0), seen.calls = 0;
    program();
  }
  /// Forgets the times of the passes so far.
  void forget() {
    for (Seen& seen : seen_) seen.pass_ms.clear();
  }

  const std::vector<Seen>& seen() const { return seen_; }

 private:
  std::vector<Seen> seen_;
};

}  // namespace graft::experiments
