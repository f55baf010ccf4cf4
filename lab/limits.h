// The machine's limits, measured: memory bandwidth and arithmetic. A workload's share of them says
// more than its time.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

namespace graft::lab {

/// A rate over several repetitions. The best is the limit; a median far below it means that the
/// machine is busy.
struct Rate {
  double best = 0, median = 0;  ///< per second; 0: not measured
  int repetitions = 0;
};

struct Limits {
  int threads = 0;          ///< ATen's threads, which the probes use
  int64_t array_bytes = 0;  ///< of each of the bandwidth probe's three arrays
  Rate copy;   ///< bytes/s of a[i] = b[i], read and written bytes counted, as STREAM does
  Rate triad;  ///< bytes/s of a[i] = b[i] + s c[i], counted likewise
  int64_t gemm_f32_size = 0, gemm_bf16_size = 0;  ///< rows and columns of the matrices used
  Rate gemm_f32;   ///< FLOP/s of at::mm on square matrices; a multiply-add counts as two
  Rate gemm_bf16;  ///< slow where the machine has no instructions for it
  Rate exp_f32;    ///< values/s of at::exp in a core's cache; others take as long or longer
};

/// Takes about 1.2 s, with `quick` about 0.35 s (more where a single 256 x 256 product takes
/// longer), and allocates three arrays of up to 256 MiB: at least twice the last-level cache, but
/// at most a sixteenth of the machine's memory. Uses ATen's threads, and the matmul precision
/// that the program has set. Nothing else should run at the same time.
Limits measure_limits(bool quick = false);
nlohmann::json to_json(const Limits& limits);

}  // namespace graft::lab
