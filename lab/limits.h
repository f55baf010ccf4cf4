// What this machine can do at most, measured: a workload's speed as a share of it says more than a
// time does.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

namespace graft::lab {

/// Of several repetitions. The best is the limit; a median far below it tells of a busy machine.
struct Rate {
  double best = 0, median = 0;  ///< a second; 0: not measured
  int repetitions = 0;
};

struct Limits {
  int threads = 0;          ///< ATen's, which the probes use
  int64_t array_bytes = 0;  ///< of each of the bandwidth probe's three arrays
  Rate copy;   ///< bytes/s of a[i] = b[i]: those read and those written, as STREAM counts
  Rate triad;  ///< bytes/s of a[i] = b[i] + s c[i]
  int64_t gemm_f32_size = 0, gemm_bf16_size = 0;  ///< the cube's side that was used
  Rate gemm_f32;   ///< FLOP/s of at::mm on squares; a product and a sum are two
  Rate gemm_bf16;  ///< slow where the machine has no instructions for it
};

/// Takes about 1 s, with `quick` about 0.3 s (more where a single 256 x 256 product takes longer
/// than that), and three arrays of up to 256 MiB for a while. The arrays are at least twice the
/// last cache, unless that passes a sixteenth of the machine's memory. With ATen's threads; matmuls
/// with the precision that the program has set. Nothing else should run beside it.
Limits measure_limits(bool quick = false);
nlohmann::json to_json(const Limits& limits);

}  // namespace graft::lab
