// What another layout costs once its kernels are compiled: recording, passes, look-ups.
//
//     build/bench/planning                 ms a layout, for GPTQ's block of 64 to 512 columns
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

}  // namespace

BENCHMARK_MAIN();
