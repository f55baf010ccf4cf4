// A workload: a function with its inputs, which the laboratory can run, compile, compare and time.
//
// A workload of Graft's own is a plain function in workloads/regions.cpp, and in region_cases.cpp a
// short function that makes its inputs, with a row in the table there; those of the set `wild` are
// in workloads/wild. Another program calls add() and run_command() (examples/my_workload).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "graft/export.h"
#include "graft/graft.h"

namespace graft::workloads {

using Tensors = std::vector<at::Tensor>;

/// Calls that each go on from what the last one left.
struct Steps {
  Tensors state;                  ///< at first copies of the inputs, which may be changed
  std::function<Tensors()> next;  ///< makes a call and returns its results
};

/// One way to compute a region on its inputs.
struct Call {
  std::function<void()> run;  ///< the call that is timed; results are dropped
  /// The same call, its tensors flattened in order, for comparison.
  std::function<Tensors()> outputs;
  /// Begins a run of calls from the inputs; empty where calls change nothing.
  std::function<Steps()> steps = {};
  explicit operator bool() const { return static_cast<bool>(run); }
};

struct CompiledCall : Call {
  std::function<Report()> report;
  std::function<std::string()> explain;
  std::function<void()> wait;
  std::function<std::vector<Decision>()> decisions;
  std::function<void(const std::string&)> save;
};

struct Instance {
  Call eager;
  std::function<CompiledCall(graft::Options)> compile;
  Call hand;  ///< hand-written C++, a reference for what the machine can do; empty if there is none
  /// More implementations by name: ATen's fused operator, another library's.
  std::vector<std::pair<std::string, Call>> others;
  /// Other ways to compile it, by names that begin with "graft_": parts of it, as functions of
  /// their own.
  std::vector<std::pair<std::string, std::function<CompiledCall(graft::Options)>>> cuts;
  /// Eager on the inputs in double: the reference for a reduction's error.
  std::function<Tensors()> fp64;
  int64_t input_bytes = 0;
  /// The least that a call must read and write: inputs and outputs once each, of a table only
  /// the rows that are looked up. 0: all of input_bytes and all outputs.
  double bytes = 0;
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
  bool fp64 = true;                                ///< the run in fp64 is done, too
  std::map<std::string, std::string> config = {};  ///< axis → value, in place of the axes' own

  /// An axis's value. Throws graft::Error naming the axis if it is not of that kind.
  const std::string& text(const std::string& axis) const;
  int64_t integer(const std::string& axis) const;                 ///< at least 1
  at::ScalarType dtype(const std::string& axis = "dtype") const;  ///< f64, f32, f16, bf16
};

/// The set that `graft bench` runs when no other is named.
inline constexpr std::string_view kDefaultSet = "regions";

struct GRAFT_API Workload {
  std::string name;
  std::string summary;
  std::vector<Axis> axes;
  /// Called with every axis in the options.
  std::function<Instance(const Options&)> build;
  /// How far a compiled result may be from eager's, relative to the largest value: sums that add in
  /// another order. 0: eager's bits.
  double tolerance = 0;
  std::string set = std::string(kDefaultSet);  ///< `graft bench --set` runs one set
  /// Of measuring it, where that may be more than there is: the most bytes that eager's run has in
  /// memory, or, where Options::fp64 says so, the one in fp64 that it is compared with. Called with
  /// every axis in the options.
  std::function<double(const Options&)> peak_bytes = nullptr;

  /// Axes that the options leave out take their own values. Throws graft::Error for an
  /// axis that the workload does not have.
  Instance make(const Options& options) const;
  /// What peak_bytes gives; 0 where it is not known. Throws likewise.
  double peak(const Options& options) const;

 private:
  Options resolved(const Options& options) const;
};

/// Every workload of every set, in the order of the tables.
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
inline void flatten(int64_t, Tensors&) {}
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

/// A leaf's stand-in is a leaf.
inline at::Tensor like_leaf(const at::Tensor& made, const at::Tensor& t) {
  return t.requires_grad() ? made.requires_grad_() : made;
}
inline at::Tensor in_double(const at::Tensor& t) {
  return t.is_floating_point() ? like_leaf(t.detach().to(at::kDouble), t) : t;
}
inline Tensors in_double(Tensors list) {
  for (at::Tensor& t : list) t = in_double(t);
  return list;
}
inline int64_t in_double(int64_t scalar) {
  return scalar;
}

inline at::Tensor copy_of(const at::Tensor& t) {
  return like_leaf(t.detach().clone(), t);
}
inline Tensors copy_of(Tensors list) {
  for (at::Tensor& t : list) t = copy_of(t);
  return list;
}
inline int64_t copy_of(int64_t scalar) {
  return scalar;
}
template <class... Args>
std::tuple<Args...> copies_of(const std::tuple<Args...>& args) {
  return std::apply([](const Args&... arg) { return std::tuple<Args...>(copy_of(arg)...); }, args);
}

template <class F, class Args>
Tensors outputs_of(const F& f, const Args& args) {
  Tensors out;
  if constexpr (std::is_void_v<decltype(std::apply(f, args))>)
    std::apply(f, args);
  else
    flatten(std::apply(f, args), out);
  return out;
}

/// The results on copies of the arguments, and then the arguments as the call left them.
template <class F, class Args>
Tensors updates_of(const F& f, const Args& args) {
  const Args own = copies_of(args);
  Tensors out = outputs_of(f, own);
  flatten(own, out);
  return out;
}

template <class F, class Args>
Call call_of(const F& f, const std::shared_ptr<Args>& args) {
  return {[f, args] { (void)std::apply(f, *args); }, [f, args] { return outputs_of(f, *args); }};
}

/// `run` changes `own` further with each call; `outputs` and `steps` start from `args` each time.
template <class F, class Args>
Call updating_call_of(const F& f, const std::shared_ptr<Args>& args,
                      const std::shared_ptr<Args>& own) {
  return {[f, own] { (void)std::apply(f, *own); }, [f, args] { return updates_of(f, *args); },
          [f, args] {
            const auto state = std::make_shared<Args>(copies_of(*args));
            Steps out{{}, [f, state] { return outputs_of(f, *state); }};
            flatten(*state, out.state);
            return out;
          }};
}

}  // namespace detail

/// Another implementation for Instance::others: `f` on these inputs.
template <class F, class... Args>
Call call_of(F f, Args... inputs) {
  return detail::call_of(f, std::make_shared<std::tuple<Args...>>(std::move(inputs)...));
}

/// The same for an `f` that changes its arguments, of which it has copies.
template <class F, class... Args>
Call updating_call_of(F f, Args... inputs) {
  const auto args = std::make_shared<std::tuple<Args...>>(std::move(inputs)...);
  const auto own = std::make_shared<std::tuple<Args...>>(detail::copies_of(*args));
  return detail::updating_call_of(f, args, own);
}

namespace detail {

/// Outputs that compiled code made, where it stands. (A call with other tensors than all before is
/// compared with eager first, and has eager's results.)
inline std::function<Tensors()> made_by_plan(std::function<Tensors()> outputs,
                                             std::function<Report()> report) {
  return [outputs = std::move(outputs), report = std::move(report)] {
    const int64_t before = report().plan_hits;
    Tensors made = outputs();
    for (int again = 0; again < 2; ++again) {
      const Report now = report();
      if (now.verdict != Verdict::Faster || now.plan_hits > before) break;
      made = outputs();
    }
    return made;
  };
}

/// `call_with(g)`: the call of g, which is f or f compiled. `outputs_with(args)`: f's outputs.
template <class F, class Args, class CallWith, class OutputsWith>
Instance instance_with(const F& f, const std::shared_ptr<Args>& args, const CallWith& call_with,
                       const OutputsWith& outputs_with) {
  Instance out;
  std::apply([&](const auto&... input) { ((out.input_bytes += bytes_of(input)), ...); }, *args);
  out.eager = call_with(f);
  out.compile = [f, call_with](graft::Options options) {
    const auto compiled = graft::compile(f, std::move(options));
    const auto report = [compiled] { return compiled.report(); };
    Call call = call_with(compiled);
    call.outputs = made_by_plan(std::move(call.outputs), report);
    return CompiledCall{std::move(call),
                        report,
                        [compiled] { return compiled.explain(); },
                        [compiled] { compiled.wait(); },
                        [compiled] { return compiled.decisions(); },
                        [compiled](const std::string& path) { compiled.save(path); }};
  };
  out.fp64 = [args, outputs_with] {
    const auto upcast = [](const auto&... input) { return Args(in_double(input)...); };
    return outputs_with(std::apply(upcast, *args));
  };
  return out;
}

}  // namespace detail

/// The region `f` on these inputs: tensors, lists of tensors, and integers.
template <class F, class... Args>
Instance instance_of(F f, Args... inputs) {
  const auto args = std::make_shared<std::tuple<Args...>>(std::move(inputs)...);
  return detail::instance_with(
      f, args, [args](const auto& g) { return detail::call_of(g, args); },
      [f](const auto& given) { return detail::outputs_of(f, given); });
}

/// The region `f`, which changes its arguments, such as an optimizer's step. Calls are timed on
/// copies of the inputs and go on from what the last call left. Outputs are those of a first call:
/// its results, and then its arguments as it left them.
template <class F, class... Args>
Instance updating_instance_of(F f, Args... inputs) {
  const auto args = std::make_shared<std::tuple<Args...>>(std::move(inputs)...);
  const auto own = std::make_shared<std::tuple<Args...>>(detail::copies_of(*args));
  return detail::instance_with(
      f, args, [args, own](const auto& g) { return detail::updating_call_of(g, args, own); },
      [f](const auto& given) { return detail::updates_of(f, given); });
}

}  // namespace graft::workloads

namespace graft {

/// Runs the graft command with the workloads that were added. A program returns its result from
/// main. Link Graft::lab.
GRAFT_API int run_command(int argc, char** argv);

}  // namespace graft
