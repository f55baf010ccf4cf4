// What a call costs beyond its arithmetic: the plan look-up alone, and whole calls of tiny
// functions.
//
//     build/bench/call_overhead            ns per call; eager beside compiled
#include <ATen/ATen.h>
#include <benchmark/benchmark.h>

#include "graft/graft.h"
#include "runtime/function/entry.h"
#include "runtime/memory/pool.h"
#include "runtime/process/snapshot.h"

namespace {

graft::Options at_once() {
  graft::Options options;
  options.async = false;
  options.race = false;
  return options;
}

at::Tensor sum_of(const at::Tensor& a, const at::Tensor& b) {
  return a + b;
}

at::Tensor rotate_half(const at::Tensor& x) {
  auto halves = x.chunk(2, -1);
  return at::cat({-halves[1], halves[0]}, -1);
}
std::tuple<at::Tensor, at::Tensor> rope(const at::Tensor& q, const at::Tensor& k,
                                        const at::Tensor& cos, const at::Tensor& sin) {
  return {q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin};
}

struct RopeArguments {
  at::Tensor q = at::randn({1, 4, 16, 64}), k = at::randn({1, 4, 16, 64});
  at::Tensor cos = at::randn({16, 64}), sin = at::randn({16, 64});
};

void key(benchmark::State& state) {
  std::vector<at::Tensor> tensors;
  for (int64_t i = 0; i < state.range(0); ++i) tensors.push_back(at::randn({4, 16, 64}));
  graft::detail::FlatArgs args;
  for (const at::Tensor& tensor : tensors) args.tensors.push_back(&tensor);
  graft::runtime::Key key;
  for (auto _ : state) {
    key.build(args);
    benchmark::DoNotOptimize(key.hash);
  }
}
BENCHMARK(key)->Name("key/tensors")->Arg(1)->Arg(4)->Arg(32)->Arg(600);

void look_up_of_four_tensors(benchmark::State& state) {
  RopeArguments a;
  graft::detail::FlatArgs args;
  for (const at::Tensor* tensor : {&a.q, &a.k, &a.cos, &a.sin}) args.tensors.push_back(tensor);
  graft::runtime::Key key;
  key.build(args);
  using graft::runtime::Table;
  auto entry = std::make_shared<graft::runtime::Entry>(key);
  graft::runtime::Snapshot<Table> table(std::make_unique<Table>(std::vector{entry}));
  for (auto _ : state) {
    key.build(args);
    graft::runtime::Snapshot<Table>::Reader reader(table);
    benchmark::DoNotOptimize(reader->find(key));
  }
}
BENCHMARK(look_up_of_four_tensors);

void pool_block_of_16_kb(benchmark::State& state) {
  for (auto _ : state) {
    void* block = graft::runtime::pool_allocate(16 << 10);
    benchmark::DoNotOptimize(block);
    graft::runtime::pool_free(block);
  }
}
BENCHMARK(pool_block_of_16_kb);

template <bool compiled>
void tiny_add(benchmark::State& state) {
  c10::InferenceMode mode;
  auto a = at::randn({16}), b = at::randn({16});
  auto f = graft::compile(sum_of, at_once());
  for (int i = 0; i < 3; ++i) f(a, b);
  for (auto _ : state) benchmark::DoNotOptimize(compiled ? f(a, b) : sum_of(a, b));
}
BENCHMARK(tiny_add<false>)->Name("tiny_add/eager");
BENCHMARK(tiny_add<true>)->Name("tiny_add/compiled");

template <bool compiled>
void tiny_rope(benchmark::State& state) {
  c10::InferenceMode mode;
  RopeArguments a;
  auto f = graft::compile(rope, at_once());
  for (int i = 0; i < 3; ++i) f(a.q, a.k, a.cos, a.sin);
  for (auto _ : state)
    benchmark::DoNotOptimize(compiled ? f(a.q, a.k, a.cos, a.sin) : rope(a.q, a.k, a.cos, a.sin));
}
BENCHMARK(tiny_rope<false>)->Name("tiny_rope_f32/eager");
BENCHMARK(tiny_rope<true>)->Name("tiny_rope_f32/compiled");

}  // namespace

BENCHMARK_MAIN();
