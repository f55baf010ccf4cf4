// Parts of a program that are compiled one by one, while the rest stays eager.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graft/workload.h"

namespace graft::workloads {

/// The compiled parts of one program. Copies share the functions.
class Parts {
 public:
  explicit Parts(graft::Options options) : options_(std::move(options)) {}

  /// Puts `f` compiled, under this name, in f's place. An empty function stays empty.
  template <class R, class... A>
  void compile(const std::string& name, std::function<R(A...)>& f) {
    if (!f) return;
    graft::Options named = options_;
    named.name = name;
    const auto compiled = graft::compile(Plain<R, A...>{f}, named);
    reports_.push_back([compiled] { return compiled.report(); });
    waits_.push_back([compiled] { compiled.wait(); });
    explanations_.push_back([compiled] { return compiled.explain(); });
    f = compiled;
  }

  /// Of each part, in the order in which they were compiled.
  std::vector<Report> reports() const;
  /// As one: kernels and times are sums; not final while a part's verdict is not.
  Report report() const;
  /// The program's call, whose parts these are.
  CompiledCall in(Call program) const;

 private:
  template <class R, class... A>
  struct Plain {
    std::function<R(A...)> f;
    R operator()(A... args) const { return f(args...); }
  };

  graft::Options options_;
  std::vector<std::function<Report()>> reports_;
  std::vector<std::function<void()>> waits_;
  std::vector<std::function<std::string()>> explanations_;
};

}  // namespace graft::workloads
