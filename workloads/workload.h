// A benchmark region with its inputs: what the laboratory can run, compile, compare and time.
//
// Adding one is a plain function in regions.cpp and a short maker of inputs in region_cases.cpp,
// with a row there.
#pragma once

#include <ATen/core/Tensor.h>
#include <graft/graft.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace graft::workloads {

using Tensors = std::vector<at::Tensor>;

/// One way to compute a region on its inputs.
struct Call {
  std::function<void()> run;  ///< what is timed: results are made and dropped
  std::function<Tensors()>
      outputs;  ///< the same call, its tensors flattened in order, for comparison
  explicit operator bool() const { return static_cast<bool>(run); }
};

struct CompiledCall : Call {
  std::function<Report()> report;
  std::function<std::string()> explain;
  std::function<void()> wait;
};

struct Instance {
  Call eager;
  std::function<CompiledCall(graft::Options)> compile;
  Call hand;  ///< hand-written C++ as the physical reference; empty where there is none
  std::function<Tensors()>
      fp64;  ///< eager on the inputs in double: the reference for a reduction's error
};

struct Options {
  uint64_t seed = 0;
  bool small =
      false;  ///< the same structure at a size for tests, odd so that vector loops have tails
};

struct Workload {
  std::string name;
  std::string summary;
  std::function<Instance(const Options&)> make;
};

/// Every workload, in the order of the tables.
const std::vector<Workload>& workloads();
/// Null if there is none of this name.
const Workload* find_workload(std::string_view name);

namespace detail {

inline void flatten(const at::Tensor& t, Tensors& out) {
  out.push_back(t);
}
inline void flatten(const Tensors& list, Tensors& out) {
  out.insert(out.end(), list.begin(), list.end());
}
template <class... T>
void flatten(const std::tuple<T...>& results, Tensors& out) {
  std::apply([&](const auto&... result) { (flatten(result, out), ...); }, results);
}

inline at::Tensor in_double(const at::Tensor& t) {
  return t.is_floating_point() ? t.to(at::kDouble) : t;
}
inline Tensors in_double(Tensors list) {
  for (at::Tensor& t : list) t = in_double(t);
  return list;
}
inline int64_t in_double(int64_t scalar) {
  return scalar;
}

template <class F, class Args>
Tensors outputs_of(const F& f, const Args& args) {
  Tensors out;
  flatten(std::apply(f, args), out);
  return out;
}

template <class F, class Args>
Call call_of(const F& f, const std::shared_ptr<Args>& args) {
  return {[f, args] { (void)std::apply(f, *args); }, [f, args] { return outputs_of(f, *args); }};
}

}  // namespace detail

/// The region `f` on these inputs: tensors, lists of tensors, and integers.
template <class F, class... Args>
Instance instance_of(F f, Args... inputs) {
  const auto args = std::make_shared<std::tuple<Args...>>(std::move(inputs)...);
  Instance out;
  out.eager = detail::call_of(f, args);
  out.compile = [f, args](graft::Options options) {
    const auto compiled = graft::compile(f, std::move(options));
    return CompiledCall{detail::call_of(compiled, args), [compiled] { return compiled.report(); },
                        [compiled] { return compiled.explain(); }, [compiled] { compiled.wait(); }};
  };
  out.fp64 = [f, args] {
    const auto upcast = [](const Args&... input) {
      return std::tuple<Args...>(detail::in_double(input)...);
    };
    return detail::outputs_of(f, std::apply(upcast, *args));
  };
  return out;
}

}  // namespace graft::workloads
