// A workload: a function with its inputs, which the laboratory can run, compile, compare and time.
//
// A workload of Graft's own is a plain function in workloads/regions.cpp, and in region_cases.cpp a
// short function that makes its inputs, with a row in the table there. Another program calls add()
// and run_command() (examples/my_workload).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "graft/export.h"
#include "graft/graft.h"

namespace graft::workloads {

using Tensors = std::vector<at::Tensor>;

/// One way to compute a region on its inputs.
struct Call {
  std::function<void()> run;  ///< the call that is timed; results are dropped
  /// The same call, its tensors flattened in order, for comparison.
  std::function<Tensors()> outputs;
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
  Call hand;  ///< hand-written C++, a reference for what the machine can do; empty if there is none
  /// More implementations by name: ATen's fused operator, another library's.
  std::vector<std::pair<std::string, Call>> others;
  /// Eager on the inputs in double: the reference for a reduction's error.
  std::function<Tensors()> fp64;
  int64_t input_bytes = 0;
  double flops = 0, samples = 0, tokens = 0;  ///< per call, where they mean something; otherwise 0
};

/// A parameter that a sweep can change.
struct Axis {
  std::string name;   ///< "rows"
  std::string value;  ///< the default
  std::string small;  ///< for tests: a small one, odd so that vector loops have tails
  std::string what;   ///< one line: "rows of x"
};

struct GRAFT_API Options {
  uint64_t seed = 0;
  bool small = false;                              ///< start from the axes' small values
  std::map<std::string, std::string> config = {};  ///< axis → value, in place of the axes' own

  /// An axis's value. Throws graft::Error naming the axis if it is not of that kind.
  const std::string& text(const std::string& axis) const;
  int64_t integer(const std::string& axis) const;                 ///< at least 1
  at::ScalarType dtype(const std::string& axis = "dtype") const;  ///< f64, f32, f16, bf16
};

struct GRAFT_API Workload {
  std::string name;
  std::string summary;
  std::vector<Axis> axes;
  /// Called with every axis in the options.
  std::function<Instance(const Options&)> build;

  /// Axes that the options leave out take their own values. Throws graft::Error for an
  /// axis that the workload does not have.
  Instance make(const Options& options) const;
};

/// Every workload, in the order of the tables.
GRAFT_API const std::vector<Workload>& workloads();
/// Adds a workload, before the first use of workloads(). Throws graft::Error if the name
/// is taken.
GRAFT_API void add(Workload workload);
/// Null if there is none of this name.
GRAFT_API const Workload* find_workload(std::string_view name);

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

inline int64_t bytes_of(const at::Tensor& t) {
  return static_cast<int64_t>(t.nbytes());
}
inline int64_t bytes_of(const Tensors& list) {
  int64_t sum = 0;
  for (const at::Tensor& t : list) sum += bytes_of(t);
  return sum;
}
inline int64_t bytes_of(int64_t) {
  return 0;
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

/// Another implementation for Instance::others: `f` on these inputs.
template <class F, class... Args>
Call call_of(F f, Args... inputs) {
  return detail::call_of(f, std::make_shared<std::tuple<Args...>>(std::move(inputs)...));
}

/// The region `f` on these inputs: tensors, lists of tensors, and integers.
template <class F, class... Args>
Instance instance_of(F f, Args... inputs) {
  const auto args = std::make_shared<std::tuple<Args...>>(std::move(inputs)...);
  Instance out;
  std::apply([&](const Args&... input) { ((out.input_bytes += detail::bytes_of(input)), ...); },
             *args);
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

namespace graft {

/// Runs the graft command with the workloads that were added. A program returns its result from
/// main. Link Graft::lab.
GRAFT_API int run_command(int argc, char** argv);

}  // namespace graft
