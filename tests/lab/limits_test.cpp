// The machine's limits: that each is measured and its figures agree with each other. How high they
// are is the machine's business.

#include "lab/limits.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lab/env.h"

namespace graft::lab {
namespace {

void expect_measured(const Rate& rate, const char* what) {
  EXPECT_GE(rate.repetitions, 3) << what;
  EXPECT_GT(rate.median, 0) << what;
  EXPECT_GE(rate.best, rate.median) << what;
}

TEST(Limits, MeasuresEach) {
  const Limits limits = measure_limits(true);
  EXPECT_EQ(limits.threads, at::get_num_threads());
  expect_measured(limits.copy, "copy");
  expect_measured(limits.triad, "triad");
  expect_measured(limits.gemm_f32, "f32");
  expect_measured(limits.gemm_bf16, "bf16");
  expect_measured(limits.exp_f32, "exp");
  for (int64_t size : {limits.gemm_f32_size, limits.gemm_bf16_size}) {
    EXPECT_GE(size, 256);
    EXPECT_LE(size, 2048);
  }
  // A figure a thousand times off is a wrong unit, not a slow machine.
  EXPECT_GT(limits.copy.best, 1e8);
  EXPECT_LT(limits.copy.best, 1e13);
  EXPECT_GT(limits.gemm_f32.best, 1e8);
  EXPECT_LT(limits.gemm_f32.best, 1e15);
}

TEST(Limits, ArraysPassTheLastCache) {
  const Limits limits = measure_limits(true);
  int64_t last = 0;
  const Environment environment = read_environment("");
  for (const Cache& cache : environment.caches) last = std::max(last, cache.bytes);
  EXPECT_GE(limits.array_bytes,
            std::min({2 * last, int64_t{128} << 20, environment.memory_bytes / 16 - (1 << 20)}));
  EXPECT_LE(limits.array_bytes, int64_t{256} << 20);
}

TEST(Limits, Json) {
  Limits limits;
  limits.threads = 3;
  limits.triad = {5e9, 4e9, 7};
  limits.gemm_bf16_size = 512;
  const auto json = to_json(limits);
  EXPECT_EQ(json["threads"], 3);
  EXPECT_EQ(json["triad_bytes_per_s"]["best"], 5e9);
  EXPECT_EQ(json["triad_bytes_per_s"]["median"], 4e9);
  EXPECT_EQ(json["triad_bytes_per_s"]["repetitions"], 7);
  EXPECT_EQ(json["gemm_bf16_size"], 512);
  EXPECT_EQ(json["copy_bytes_per_s"]["best"], 0);
}

}  // namespace
}  // namespace graft::lab
