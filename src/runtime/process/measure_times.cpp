// Short loops on two threads, each run several times; the least time counts, since whatever else
// the machine does only adds.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <immintrin.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <new>
#include <thread>
#include <vector>

#include "ir/product.h"
#include "runtime/process/machine_times.h"
#include "runtime/process/with_threads.h"

namespace graft::runtime {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRuns = 16;
constexpr int kTurns = 4;
/// What takes long (products of bf16 do without instructions for them) is run less often.
constexpr int kFewestRuns = 4;
constexpr std::chrono::milliseconds kPatience{50};
constexpr double kMuchSlower = 3;
/// A thread that had a core of its own has run for all but this share of the time.
constexpr double kInterrupted = 1.05;
constexpr int64_t kLine = 64;
constexpr int64_t kMemory = int64_t{24} << 20;  ///< bytes per thread: beyond a core's own caches
constexpr int64_t kFirst = 8 << 10;             ///< lies in the first
constexpr int64_t kRowBytes = 16 << 10;         ///< rows so far apart are on pages of their own
constexpr int64_t kSide = 384;                  ///< of matrices

using Vector [[gnu::vector_size(16)]] = float;

class Memory {
 public:
  explicit Memory(int64_t bytes) : bytes_(static_cast<size_t>(bytes)) {
    data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) throw std::bad_alloc();
    std::memset(data_, 1, bytes_);
  }
  ~Memory() { munmap(data_, bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  char* data() const { return static_cast<char*>(data_); }

 private:
  size_t bytes_;
  void* data_;
};

/// The compiler has to assume that it is read.
template <class T>
void keep(const T& value) {
  asm volatile("" : : "g"(&value) : "memory");
}

/// Reads all of it, in order.
void read_all(const char* data, int64_t bytes) {
  constexpr auto kVector = static_cast<int64_t>(sizeof(Vector));
  Vector sum[kLine / kVector] = {};
  for (int64_t i = 0; i < bytes; i += kLine)
    for (int64_t k = 0; k < kLine / kVector; ++k)
      sum[k] += *reinterpret_cast<const Vector*>(data + i + k * kVector);
  keep(sum);
}

/// Writes the second half, from what the first holds.
void copy_half(char* data, int64_t bytes) {
  std::memcpy(data + bytes / 2, data, static_cast<size_t>(bytes / 2));
  keep(*data);
}

/// Reads a line of each row, then the next line of each, of the first eight.
void read_down(const char* data, int64_t bytes) {
  Vector sum = {};
  for (int64_t line = 0; line < 8; ++line)
    for (int64_t row = 0; row < bytes; row += kRowBytes)
      sum += *reinterpret_cast<const Vector*>(data + row + line * kLine);
  keep(sum);
}

/// Reads all of it, in order, with as much work for each line as fills a core's window; asks for a
/// line further on as kernels do (ir::kStreamAhead), or does not.
template <bool kAsks>
void work_through(const char* data, int64_t bytes) {
  constexpr auto kVector = static_cast<int64_t>(sizeof(Vector));
  Vector sum[kLine / kVector] = {};
  for (int64_t i = 0; i < bytes; i += kLine) {
    if (kAsks) __builtin_prefetch(data + i + ir::kStreamAhead, 0, 2);
    for (int64_t k = 0; k < kLine / kVector; ++k) {
      const auto x = *reinterpret_cast<const Vector*>(data + i + k * kVector);
      Vector y = x;
#pragma GCC unroll 8
      for (int power = 0; power < 8; ++power) y = y * x + 0.5F;
      sum[k] += y;
    }
  }
  keep(sum);
}

/// y = y * 0.5 + x, over the first cache: two loads, two operations and a store per vector.
void compute(char* data, int64_t times) {
  auto* x = reinterpret_cast<Vector*>(data);
  Vector* y = x + kFirst / 2 / static_cast<int64_t>(sizeof(Vector));
  for (int64_t t = 0; t < times; ++t) {
#pragma GCC unroll 8
    for (int64_t i = 0; i < kFirst / 2 / static_cast<int64_t>(sizeof(Vector)); ++i)
      y[i] = y[i] * 0.5F + x[i];
    keep(*y);
  }
}

/// A part of a product as kernels compute it (codegen/llvm/product.cpp): a block of terms adds to
/// what is there, of a right operand that lies beyond a core's own caches. `kRows` x 2 vectors in
/// registers.
constexpr int64_t kPanels = 32;
constexpr int64_t kRightOfBlock = kPanels * ir::kMostProductColumns * ir::kProductTerms;
constexpr double kProductOperations = 2.0 * ir::kProductBlock * kRightOfBlock;
#define GRAFT_MULTIPLY_BLOCK(name, isa, Lanes, kRows, set1, load, store, multiply_add)          \
  [[gnu::target(isa)]] void name(float* data, const float* right) {                             \
    constexpr int64_t kWide = 2 * sizeof(Lanes) / sizeof(float), kTerms = ir::kProductTerms;    \
    constexpr int64_t kColumns = ir::kMostProductColumns, kAll = kPanels * kColumns;            \
    const float* left = data;                                                                   \
    float* out = data + ir::kProductBlock * kTerms;                                             \
    for (int64_t column = 0; column < kAll; column += kWide)                                    \
      for (int64_t row = 0; row < ir::kProductBlock; row += kRows) {                            \
        const float* panel = right + column / kColumns * kColumns * kTerms + column % kColumns; \
        Lanes sums[kRows][2] = {};                                                              \
        for (int64_t k = 0; k < kTerms; ++k) {                                                  \
          const float* from = panel + k * kColumns;                                             \
          const Lanes a = load(from), b = load(from + kWide / 2);                               \
          __builtin_prefetch(from + kTerms * kColumns, 0, 2);                                   \
          __builtin_prefetch(from + kTerms * kColumns + kWide / 2, 0, 2);                       \
          _Pragma("GCC unroll 8") for (int64_t r = 0; r < kRows; ++r) {                         \
            const Lanes one = set1(left[(row + r) * kTerms + k]);                               \
            sums[r][0] = multiply_add(one, a, sums[r][0]);                                      \
            sums[r][1] = multiply_add(one, b, sums[r][1]);                                      \
          }                                                                                     \
        }                                                                                       \
        _Pragma("GCC unroll 8") for (int64_t r = 0; r < kRows; ++r)                             \
            _Pragma("GCC unroll 2") for (int64_t v = 0; v < 2; ++v) {                           \
          float* to = out + (row + r) * kAll + column + v * kWide / 2;                          \
          store(to, load(to) + sums[r][v]);                                                     \
        }                                                                                       \
      }                                                                                         \
  }
GRAFT_MULTIPLY_BLOCK(multiply_block_16, "avx512f", __m512, 8, _mm512_set1_ps, _mm512_loadu_ps,
                     _mm512_storeu_ps, _mm512_fmadd_ps)
GRAFT_MULTIPLY_BLOCK(multiply_block_8, "avx2,fma", __m256, 4, _mm256_set1_ps, _mm256_loadu_ps,
                     _mm256_storeu_ps, _mm256_fmadd_ps)
#undef GRAFT_MULTIPLY_BLOCK

/// ATen's product of two square matrices, on the calling thread, into a third.
void multiply(char* data, c10::ScalarType type) {
  const at::NoGradGuard no_grad;
  const WithThreads one(1);
  const auto matrix = [&](int64_t k) {
    return at::from_blob(data + k * kSide * kSide * 4, {kSide, kSide}, type);
  };
  at::Tensor out = matrix(2);
  at::mm_out(out, matrix(0), matrix(1));
}

/// Nanoseconds that the calling thread has run.
double own_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

/// Two threads that do the same, each with memory of its own.
class Pair {
 public:
  Pair() : memory_(static_cast<int64_t>(threads_) * kMemory) {}

  /// Nanoseconds of one run of `work(data)` on all threads at once. Once they were busy(), what
  /// they take says nothing, and nothing is run.
  double least(const std::function<void(char*)>& work) {
    double best = std::numeric_limits<double>::infinity();
    if (busy_) return best;
    const auto begin = Clock::now();
    std::vector<double> took(threads_), passed(threads_);
    double interrupted = std::numeric_limits<double>::infinity();
    for (int run = 0; run < kRuns; ++run) {
      std::atomic<unsigned> ready{0};
      auto one = [&](unsigned k) {
        char* data = memory_.data() + static_cast<int64_t>(k) * kMemory;
        ready.fetch_add(1);
        const auto patience = Clock::now() + std::chrono::milliseconds(2);
        while (ready.load() < threads_ && Clock::now() < patience) {
        }
        const auto start = Clock::now();
        const double own_start = own_time();
        work(data);
        took[k] = own_time() - own_start;
        passed[k] = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
      };
      std::vector<std::thread> others;
      for (unsigned k = 1; k < threads_; ++k) others.emplace_back(one, k);
      one(0);
      for (std::thread& other : others) other.join();
      const double longest = *std::max_element(took.begin(), took.end());
      interrupted =
          std::min(interrupted, *std::max_element(passed.begin(), passed.end()) / longest);
      best = std::min(best, longest);
      if (run + 1 >= kFewestRuns && Clock::now() - begin > kPatience) break;
    }
    busy_ = busy_ || interrupted > kInterrupted;
    return best;
  }
  /// Was there never a run in which all threads had cores of their own?
  bool busy() const { return busy_; }
  /// Sets all numbers in the threads' memory.
  void fill(float number) {
    std::fill_n(reinterpret_cast<float*>(memory_.data()), threads_ * kMemory / sizeof number,
                number);
  }
  /// Of what all threads did in that time, the share of one unit of `each`.
  double per(double each, const std::function<void(char*)>& work) {
    return least(work) / each / threads_;
  }

 private:
  const unsigned threads_ = std::min(2U, std::max(1U, std::thread::hardware_concurrency()));
  Memory memory_;
  bool busy_ = false;
};

}  // namespace

std::optional<ir::Times> measure_times() {
  Pair pair;
  ir::Times times;
  constexpr int64_t kPasses = 2000;
  // Instructions for a vector: see compute().
  times.instruction = pair.per(5.0 * kPasses * kFirst / 2 / sizeof(Vector),
                               [](char* data) { compute(data, kPasses); });
  const double memory = pair.per(kMemory, [](char* data) { read_all(data, kMemory); });
  const double copied = pair.per(kMemory, [](char* data) { copy_half(data, kMemory); });
  times.memory_byte = std::max(memory, copied);
  const double down = pair.per(8.0 * kLine * static_cast<double>(kMemory) / kRowBytes,
                               [](char* data) { read_down(data, kMemory); });
  times.far_line = std::max(1.0, down / memory);
  constexpr int64_t kStream = kMemory / 2;
  times.unasked_stream = pair.least([](char* data) { work_through<false>(data, kStream); }) /
                         pair.least([](char* data) { work_through<true>(data, kStream); });
  auto blocks = [&pair](void (*multiply_block)(float*, const float*)) {
    constexpr int kBlocks = 16;
    return pair.per(kBlocks * kProductOperations, [multiply_block](char* data) {
      auto* numbers = reinterpret_cast<float*>(data);
      const float* right = numbers + kMemory / 4 / 2;
      for (int k = 0; k < kBlocks; ++k) multiply_block(numbers, right), right += kRightOfBlock;
    });
  };
  pair.fill(1);  // of numbers as small as those that it holds products would not be normal
  const auto call = [&](c10::ScalarType type) {
    return pair.per(2.0 * kSide * kSide * kSide, [type](char* data) { multiply(data, type); });
  };
  // Plans depend on how they compare: in turns, so that no slow moment is one's alone.
  times.product_flop = times.call_flop = times.short_call_flop =
      std::numeric_limits<double>::infinity();
  for (int turn = 0; turn < kTurns; ++turn) {
    if (__builtin_cpu_supports("avx512f"))
      times.product_flop = std::min(times.product_flop, blocks(multiply_block_16));
    else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
      times.product_flop = std::min(times.product_flop, blocks(multiply_block_8));
    times.call_flop = std::min(times.call_flop, call(at::kFloat));
    if (turn == 0 || times.short_call_flop < kMuchSlower * times.call_flop)
      times.short_call_flop = std::min(times.short_call_flop, call(at::kBFloat16));
  }
  return pair.busy() ? std::nullopt : std::optional(times);
}

}  // namespace graft::runtime
