#include "ops/routine.h"

#include <ATen/Context.h>
#include <ATen/core/List.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/stack.h>
#include <ATen/ops/empty_strided.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <mutex>

#include "ops/context.h"
#include "ops/schema.h"

namespace graft::ops {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kBudget = 0.3;    // seconds of measuring
constexpr int kMostSamples = 15;   // of each routine
constexpr double kWorthIt = 0.95;  // of ATen's time

/// a [M, K] times b [K, N], plus bias [N] where there is one.
struct Matmul {
  ir::View a, b, bias;
};

/// Of fp32, and each element in a place of its own: oneDNN refuses rows that overlap.
bool is_matrix(const ir::View& v) {
  return v.sizes.size() == 2 && is_non_overlapping(v) && v.dtype == c10::ScalarType::Float &&
         v.sizes[0] > 0 && v.sizes[1] > 0;
}

bool is_one(const record::OperatorRecord& op, std::string_view name) {
  auto value = number(op, name);
  return !value || value->equal(1);
}

std::optional<Matmul> matmul_of(const record::Trace& trace, const record::OperatorRecord& op) {
  std::string name = full_name(op);
  bool with_bias = name == "aten::addmm";
  if (!with_bias && name != "aten::mm") return std::nullopt;
  auto operand = [&](std::string_view argument) {
    int index = argument_index(op, argument);
    int tensor = op.inputs[static_cast<size_t>(index)].tensors.at(0);
    return tensor < 0 ? ir::View{} : Context::view(trace.tensors[static_cast<size_t>(tensor)]);
  };
  Matmul m;
  m.a = operand(with_bias ? "mat1" : "self");
  m.b = operand("mat2");
  if (!is_matrix(m.a) || !is_matrix(m.b)) return std::nullopt;
  if (!with_bias) return m;
  m.bias = operand("self");
  bool fits = m.bias.sizes == std::vector<int64_t>{m.b.sizes[1]} &&
              m.bias.dtype == c10::ScalarType::Float && is_one(op, "alpha") && is_one(op, "beta");
  return fits ? std::optional(m) : std::nullopt;
}

ir::View transposed(ir::View v) {
  std::swap(v.sizes[0], v.sizes[1]);
  std::swap(v.strides[0], v.strides[1]);
  return v;
}

using Stack = torch::jit::Stack;

double seconds_of(const c10::OperatorHandle& op, const Stack& arguments) {
  Stack stack = arguments;
  auto start = Clock::now();
  op.callBoxed(stack);
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Times {
  double aten = 0, other = 0;
};

/// OpenMP's count is a thread's own: the compiling one may have another than the caller has.
class WithThreads {
 public:
  explicit WithThreads(int count) : before_(omp_get_max_threads()) { omp_set_num_threads(count); }
  ~WithThreads() { omp_set_num_threads(before_); }
  WithThreads(const WithThreads&) = delete;
  WithThreads& operator=(const WithThreads&) = delete;

 private:
  int before_;
};

/// The least of a few runs in turns: whatever else the machine does only adds. The first runs warm
/// up, and are all there is where they take the whole budget.
Times race(const c10::OperatorHandle& aten, const Stack& with, const c10::OperatorHandle& other,
           const Stack& other_with) {
  Times least{seconds_of(aten, with), seconds_of(other, other_with)};
  double spent = least.aten + least.other;
  for (int i = 0; i < kMostSamples && spent < kBudget; ++i) {
    Times now{seconds_of(aten, with), seconds_of(other, other_with)};
    spent += now.aten + now.other;
    least.aten = std::min(least.aten, now.aten);
    least.other = std::min(least.other, now.other);
  }
  return least;
}

at::Tensor like(const ir::View& v) {
  if (v.sizes.empty()) return {};
  return at::empty_strided(v.sizes, v.strides, c10::ScalarType::Float).fill_(0.5);
}

using Key = std::vector<int64_t>;

Key key_of(const Matmul& m, int threads) {
  Key key{threads, static_cast<int64_t>(m.bias.sizes.size())};
  for (const ir::View* v : {&m.a, &m.b})
    for (const auto* part : {&v->sizes, &v->strides})
      key.insert(key.end(), part->begin(), part->end());
  return key;
}

Times times_of(const record::OperatorRecord& op, const Matmul& m, const ChosenRoutine& other,
               int threads) {
  at::NoGradGuard no_grad;
  WithThreads with_threads(threads);
  c10::IValue a = like(m.a), b = like(m.b), bias = like(m.bias);
  Stack with{a, b}, other_with{a, b.toTensor().t(), m.bias.sizes.empty() ? c10::IValue() : bias};
  if (!m.bias.sizes.empty()) with = {bias, a, b, 1, 1};
  other_with.insert(other_with.end(), other.constants.begin(), other.constants.end());
  return race(op.op, with, other.op, other_with);
}

/// Of the matmuls that were measured in this process. Nobody holds the mutex while it measures: a
/// fork in between would leave the child without it.
class Measured {
 public:
  std::optional<Times> find(const Key& key) {
    std::lock_guard lock(mutex_);
    auto known = known_.find(key);
    return known == known_.end() ? std::nullopt : std::optional(known->second);
  }
  void add(const Key& key, const Times& times) {
    std::lock_guard lock(mutex_);
    known_[key] = times;
  }

 private:
  std::mutex mutex_;
  std::map<Key, Times> known_;
};

std::string milliseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g ms", seconds * 1e3);
  return text;
}

}  // namespace

std::optional<ChosenRoutine> chosen_routine(const record::Trace& trace,
                                            const record::OperatorRecord& op,
                                            const LowerSettings& settings) {
  if (settings.matmuls == Matmuls::Aten) return std::nullopt;
  auto m = matmul_of(trace, op);
  if (!m || !at::globalContext().userEnabledMkldnn()) return std::nullopt;
  auto onednn = c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
  if (!onednn) return std::nullopt;  // a libtorch built without it
  ChosenRoutine routine{*onednn,
                        {"none", c10::List<std::optional<at::Scalar>>(), c10::IValue()},
                        {m->a, transposed(m->b), m->bias},
                        "oneDNN's"};
  if (settings.matmuls == Matmuls::OneDnn) return routine;
  static auto* measured = new Measured;  // the worker may outlive static objects
  const Key key = key_of(*m, settings.threads);
  std::optional<Times> times = measured->find(key);
  try {
    if (!times) times = times_of(op, *m, routine, settings.threads);
  } catch (const std::exception&) {
    return std::nullopt;  // no memory for it, or a layout that one of them refuses
  }
  measured->add(key, *times);
  if (times->other > kWorthIt * times->aten) return std::nullopt;
  routine.why += ", " + milliseconds(times->other) + " against " + milliseconds(times->aten);
  return routine;
}

}  // namespace graft::ops
