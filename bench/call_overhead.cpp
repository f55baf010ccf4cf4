// What a call costs beyond its arithmetic: the plan look-up alone, and whole calls of tiny
// functions.
//
//     build/bench/call_overhead            ns per call; eager beside compiled
#include <ATen/ATen.h>
#include <benchmark/benchmark.h>

#include "codegen/backend.h"
#include "graft/graft.h"
#include "record/trace.h"
#include "runtime/function/compile.h"
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

// --- a decoder's layer on one token, of width 64 ---

struct Layer {
  static constexpr int64_t kWidth = 64;
  at::Tensor norm_1 = at::rand({kWidth}), norm_2 = at::rand({kWidth});
  at::Tensor query = weight(kWidth, kWidth), out = weight(kWidth, kWidth),
             up = weight(2 * kWidth, kWidth), down = weight(kWidth, 2 * kWidth);

  static at::Tensor weight(int64_t rows, int64_t columns) {
    return at::randn({rows, columns}) * 0.1;
  }
  static at::Tensor norm(const at::Tensor& x, const at::Tensor& scale) {
    return x * at::rsqrt((x * x).mean(-1, true) + 1e-6) * scale;
  }
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& keys,
                        const at::Tensor& values) const {
    const at::Tensor q = at::linear(norm(x, norm_1), query).view({1, 4, 1, 16});
    const at::Tensor s = at::softmax(at::matmul(q, keys.transpose(-1, -2)) * 0.25, -1);
    const at::Tensor y = x + at::linear(at::matmul(s, values).view({1, kWidth}), out);
    return y + at::linear(at::silu(at::linear(norm(y, norm_2), up)), down);
  }
};

struct LayerArguments {
  at::Tensor x = at::randn({1, Layer::kWidth});
  at::Tensor keys = at::randn({1, 4, 8, 16}), values = at::randn({1, 4, 8, 16});
};

void decoder_layer(benchmark::State& state, graft::Mode mode) {
  const c10::InferenceMode inference;
  const Layer layer;
  const LayerArguments a;
  graft::Options options = at_once();
  options.mode = mode;
  const auto f = graft::compile(layer, options);
  for (int i = 0; i < 5; ++i) f(a.x, a.keys, a.values);
  for (auto _ : state) benchmark::DoNotOptimize(f(a.x, a.keys, a.values));
}
BENCHMARK_CAPTURE(decoder_layer, compiled, graft::Mode::Default);
BENCHMARK_CAPTURE(decoder_layer, reduce_overhead, graft::Mode::ReduceOverhead);

void decoder_layer_eager(benchmark::State& state) {
  const c10::InferenceMode inference;
  const Layer layer;
  const LayerArguments a;
  for (auto _ : state) benchmark::DoNotOptimize(layer(a.x, a.keys, a.values));
}
BENCHMARK(decoder_layer_eager)->Name("decoder_layer/eager");

/// The kernels of its plan, one after another, and nothing else.
void decoder_layer_kernels(benchmark::State& state) {
  namespace rt = graft::runtime;
  const c10::InferenceMode inference;
  const Layer layer;
  const LayerArguments a;
  at::Tensor result;
  const auto trace = graft::record::record(
      {a.x, a.keys, a.values}, [&] { result = layer(a.x, a.keys, a.values); },
      [&] { return graft::record::Outcome({result}); });
  rt::CompileSettings settings;
  settings.target = graft::codegen::host_target(1);
  const rt::Scheduled scheduled = rt::schedule(trace, settings);
  std::vector<at::Tensor> memory;
  for (const auto& storage : scheduled.schedule.storages)
    memory.push_back(at::rand({storage.bytes / 4 + 16}));
  struct Launch {
    graft::codegen::KernelFn fn;
    graft::codegen::Binding binding;
    std::vector<char*> pointers;
    at::Tensor scratch;
  };
  std::vector<Launch> launches;
  for (const auto& step : scheduled.schedule.steps) {
    const auto* kernel = std::get_if<graft::ir::Kernel>(&step);
    if (kernel == nullptr) return state.SkipWithError("the plan has calls");
    Launch launch;
    launch.binding = graft::codegen::bind(*kernel);
    bool compiled = false;
    launch.fn =
        graft::codegen::get_or_compile(*kernel, launch.binding, settings.target, nullptr, compiled)
            .fn;
    for (const auto& pointer : launch.binding.pointers)
      launch.pointers.push_back(
          static_cast<char*>(memory[static_cast<size_t>(pointer.storage)].data_ptr()) +
          pointer.byte_offset);
    launch.scratch = at::zeros({launch.binding.scratch_bytes / 4 + 16});
    launches.push_back(std::move(launch));
  }
  for (auto _ : state)
    for (const Launch& launch : launches) {
      const graft::codegen::LaunchArgs args{launch.pointers.data(), launch.binding.integers.data(),
                                            launch.binding.scalars.data()};
      launch.fn(&args, static_cast<char*>(launch.scratch.data_ptr()), 0,
                launch.binding.range_extent);
    }
}
BENCHMARK(decoder_layer_kernels)->Name("decoder_layer/kernels");

}  // namespace

BENCHMARK_MAIN();
