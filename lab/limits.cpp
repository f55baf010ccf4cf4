#include "lab/limits.h"

#include <ATen/Parallel.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>
#include <c10/core/GradMode.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <new>
#include <nlohmann/json.hpp>
#include <vector>

#include "lab/env.h"
#include "lab/stats.h"
#include "lab/timer.h"

namespace graft::lab {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kThreadBlock = 4096;  // doubles that a thread takes at once
constexpr int64_t kUnroll = 32;         // a fixed count, so that -O2 makes vectors of it
constexpr int kLeastRepetitions = 3;

/// Pages of its own, huge where the system has them: page faults and TLB misses are not what is
/// measured.
class Array {
 public:
  explicit Array(int64_t bytes) : bytes_(static_cast<size_t>(bytes)) {
    data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) throw std::bad_alloc();
    madvise(data_, bytes_, MADV_HUGEPAGE);
  }
  ~Array() { munmap(data_, bytes_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  double* data() const { return static_cast<double*>(data_); }

 private:
  size_t bytes_;
  void* data_;
};

int64_t array_bytes(bool quick) {
  const Environment environment = read_environment("");
  int64_t last_cache = 0;
  for (const Cache& cache : environment.caches) last_cache = std::max(last_cache, cache.bytes);
  int64_t bytes = std::clamp((quick ? 2 : 4) * last_cache, (quick ? 48 : 64) * kMiB,
                             (quick ? 128 : 256) * kMiB);
  if (environment.memory_bytes > 0) bytes = std::min(bytes, environment.memory_bytes / 16);
  return bytes / (kThreadBlock * 8) * (kThreadBlock * 8);
}

/// Runs until `seconds` are over, at least kLeastRepetitions times after one that does not count.
/// `work`: what one run does.
Rate rate_of(const std::function<void()>& run, double work, double seconds) {
  const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                   std::chrono::duration<double>(seconds));
  run();
  std::vector<double> rates;
  while (static_cast<int>(rates.size()) < kLeastRepetitions || Clock::now() < end)
    rates.push_back(work / (1e-3 * time_once_ms(run)));
  return {quantile(rates, 1), median(rates), static_cast<int>(rates.size())};
}

/// `each(begin, end)` over all elements, in blocks, on ATen's threads.
template <class Each>
void in_parallel(int64_t count, const Each& each) {
  at::parallel_for(0, count / kThreadBlock, 1, [&](int64_t begin, int64_t end) {
    each(begin * kThreadBlock, end * kThreadBlock);
  });
}

void triad(double* __restrict a, const double* __restrict b, const double* __restrict c,
           int64_t begin, int64_t end) {
  constexpr double kScale = 3;
  for (int64_t i = begin; i < end; i += kUnroll) {
    for (int64_t j = 0; j < kUnroll; ++j) a[i + j] = b[i + j] + kScale * c[i + j];
  }
}

void measure_bandwidth(Limits& limits, double seconds) {
  const int64_t bytes = limits.array_bytes, count = bytes / 8;
  const Array a_array(bytes), b_array(bytes), c_array(bytes);
  double* const a = a_array.data();
  double* const b = b_array.data();
  double* const c = c_array.data();
  // The first touch decides on which memory node a page lies: the thread's that will use it.
  in_parallel(count, [&](int64_t begin, int64_t end) {
    std::fill(a + begin, a + end, 0.0);
    std::fill(b + begin, b + end, 1.0);
    std::fill(c + begin, c + end, 2.0);
  });
  const auto size = static_cast<double>(bytes);
  const auto copy = [&] {
    in_parallel(count, [&](int64_t begin, int64_t end) {
      std::memcpy(a + begin, b + begin, static_cast<size_t>(end - begin) * sizeof(double));
    });
  };
  limits.copy = rate_of(copy, 2 * size, seconds);
  const auto add = [&] {
    in_parallel(count, [&](int64_t begin, int64_t end) { triad(a, b, c, begin, end); });
  };
  limits.triad = rate_of(add, 3 * size, seconds);
}

/// The largest matrices of which several products fit into the time.
Rate measure_gemm(at::ScalarType dtype, double seconds, int64_t& size) {
  static constexpr int64_t kSizes[] = {256, 512, 1024, 2048};
  const auto flops = [](int64_t n) {
    const auto side = static_cast<double>(n);
    return 2 * side * side * side;
  };
  std::function<void()> run;
  const auto make = [&](int64_t n) {
    size = n;
    const at::Tensor a = at::rand({n, n}).to(dtype);
    run = [a, b = a.clone(), out = at::empty({n, n}, dtype)]() mutable { at::mm_out(out, a, b); };
  };
  const Clock::time_point start = Clock::now();
  const auto spent = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  double rate = 0;
  for (int64_t n : kSizes) {
    // A larger one runs about as fast as the one before; 1 + kLeastRepetitions of it must fit, here
    // and again below.
    if (rate > 0 && spent() + 8 * flops(n) / rate > seconds) break;
    make(n);
    run();  // builds the routine
    for (int i = 0; i < kLeastRepetitions; ++i)
      rate = std::max(rate, flops(n) / (1e-3 * time_once_ms(run)));
  }
  return rate_of(run, flops(size), std::max(0.0, seconds - spent()));
}

/// Each thread has numbers of its own, which stay in its cache, and so many of them that starting
/// an operator is nothing.
Rate measure_exp(double seconds) {
  constexpr int64_t kCount = 16384, kRounds = 32;
  const int64_t threads = at::get_num_threads();
  std::vector<at::Tensor> in, out;
  for (int64_t t = 0; t < threads; ++t)
    in.push_back(at::rand({kCount})), out.push_back(at::empty({kCount}));
  const auto run = [&] {
    at::parallel_for(0, threads, 1, [&](int64_t begin, int64_t end) {
      const c10::NoGradGuard no_grad;
      for (int64_t t = begin; t < end; ++t)
        for (int64_t k = 0; k < kRounds; ++k)
          at::exp_out(out[static_cast<size_t>(t)], in[static_cast<size_t>(t)]);
    });
  };
  return rate_of(run, static_cast<double>(threads * kCount * kRounds), seconds);
}

nlohmann::json rate_json(const Rate& rate) {
  return {{"best", rate.best}, {"median", rate.median}, {"repetitions", rate.repetitions}};
}

}  // namespace

Limits measure_limits(bool quick) {
  const c10::NoGradGuard no_grad;
  const double seconds = quick ? 0.05 : 0.18;  // of each of the five; the rest is making inputs
  Limits limits;
  limits.threads = at::get_num_threads();
  limits.array_bytes = array_bytes(quick);
  measure_bandwidth(limits, seconds);
  limits.gemm_f32 = measure_gemm(at::kFloat, seconds, limits.gemm_f32_size);
  limits.gemm_bf16 = measure_gemm(at::kBFloat16, seconds, limits.gemm_bf16_size);
  limits.exp_f32 = measure_exp(seconds);
  return limits;
}

nlohmann::json to_json(const Limits& limits) {
  return {{"threads", limits.threads},
          {"array_bytes", limits.array_bytes},
          {"copy_bytes_per_s", rate_json(limits.copy)},
          {"triad_bytes_per_s", rate_json(limits.triad)},
          {"gemm_f32_size", limits.gemm_f32_size},
          {"gemm_f32_flops_per_s", rate_json(limits.gemm_f32)},
          {"gemm_bf16_size", limits.gemm_bf16_size},
          {"gemm_bf16_flops_per_s", rate_json(limits.gemm_bf16)},
          {"exp_f32_per_s", rate_json(limits.exp_f32)}};
}

}  // namespace graft::lab
