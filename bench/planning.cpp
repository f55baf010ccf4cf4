// What another layout costs once its kernels are compiled: recording, passes, look-ups.
//
//     build/bench/planning    ms per layout, for GPTQ's block of 64 to 512 columns;
//                             seconds of a first call, for Adam over 500 to 2000 parameters
#include <ATen/ATen.h>
#include <benchmark/benchmark.h>

#include "graft/graft.h"
#include "workloads/regions.h"

namespace {

void another_layout(benchmark::State& state) {
  const int64_t columns = state.range(0);
  graft::Options options;
  options.async = false;
  options.race = false;
  options.cache = false;
  const auto compiled = graft::compile(graft::workloads::gptq_block, options);
  const at::Tensor Hinv = at::eye(columns) + at::randn({columns, columns}).triu() * 0.01;
  int64_t rows = 64;
  double record = 0, compile = 0, first = 0;
  for (auto _ : state) {
    const at::Tensor W = at::randn({rows++, columns});
    const at::Tensor scale = W.abs().amax(1) / 8, zero = at::full({W.size(0)}, 8.0);
    compiled(W, Hinv, scale, zero);
    const graft::Report report = compiled.report();
    if (rows == 65) {
      first = report.record_ms + report.compile_ms;
      continue;
    }
    record += report.record_ms;
    compile += report.compile_ms;
  }
  const auto layouts = static_cast<double>(std::max<int64_t>(state.iterations() - 1, 1));
  state.counters["first_ms"] = first;
  state.counters["record_plan_ms"] = record / layouts;
  state.counters["look_up_ms"] = compile / layouts;
}
BENCHMARK(another_layout)->Arg(64)->Arg(128)->Arg(256)->Arg(512)->Iterations(20);

/// A long program without a loop to find: nothing may take time by the square of its length.
void many_parameters(benchmark::State& state) {
  std::vector<at::Tensor> tensors;
  for (int64_t i = 0; i < state.range(0); ++i)
    for (int k = 0; k < 4; ++k) tensors.push_back(at::rand({64 + i * 13 % 977}) + 0.1);
  const auto step = [](const std::vector<at::Tensor>& t) {
    for (size_t i = 0; i < t.size(); i += 4) {
      const at::Tensor &p = t[i], &g = t[i + 1], &m = t[i + 2], &v = t[i + 3];
      m.mul_(0.9).add_(g, 0.1);
      v.mul_(0.999).addcmul_(g, g, 0.001);
      p.addcdiv_(m, v.sqrt().add_(1e-8), -0.01);
    }
  };
  graft::Options options;
  options.async = false;
  options.race = false;
  options.cache = false;
  for (auto _ : state) {
    const auto compiled = graft::compile(step, options);
    compiled(tensors);
  }
}
BENCHMARK(many_parameters)->Arg(500)->Arg(1000)->Arg(2000)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
