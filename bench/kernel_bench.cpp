// Compiled kernels beside the same loops written by hand, on warm memory, on ATen's threads:
//
//     build/bench/kernel_bench [--benchmark_filter=rope]
//
// The hand-written side wants AVX-512 and is left out where the host has none.
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <immintrin.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "codegen/backend.h"
#include "ir/builder.h"

#pragma GCC optimize("O3", "no-math-errno")
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c,bmi2,prefer-vector-width=512")

namespace {

using namespace graft;
using c10::ScalarType;
using ir::Kernel;
using ir::LoopKind;
using ir::StatementBuilder;
using ir::Value;
using ir::View;

/// Memory on huge pages, touched.
char* allocate(int64_t bytes) {
  constexpr size_t kHuge = size_t{1} << 21;
  size_t size = (static_cast<size_t>(bytes) + kHuge - 1) / kHuge * kHuge;
  void* memory = std::aligned_alloc(kHuge, size);
  madvise(memory, size, MADV_HUGEPAGE);
  // Small positive numbers in every type: 0.5 in float and bfloat16.
  for (size_t i = 0; i < size / 2; ++i) static_cast<uint16_t*>(memory)[i] = 0x3f00;
  return static_cast<char*>(memory);
}

struct Case {
  Kernel kernel;
  std::vector<int64_t> bytes;  ///< per storage
  std::function<void(const std::vector<char*>&)> hand;

  View tensor(std::vector<int64_t> sizes, ScalarType dtype) {
    int64_t size = ir::numel(sizes) * static_cast<int64_t>(c10::elementSize(dtype));
    bytes.push_back(size);
    return {static_cast<int>(bytes.size() - 1), dtype, 0, sizes, ir::contiguous_strides(sizes)};
  }
  View scratch(std::vector<int64_t> sizes, ScalarType dtype) {
    View view = tensor(sizes, dtype);
    kernel.scratch.push_back({view.storage, kernel.scratch_bytes, bytes.back()});
    kernel.scratch_bytes += (bytes.back() + 63) / 64 * 64;
    for (size_t d = 0; d < sizes.size(); ++d)
      if (sizes[d] == 1) view.strides[d] = 0;
    return view;
  }
  int var(int64_t extent, LoopKind kind) {
    kernel.vars.push_back({extent, kind});
    int v = static_cast<int>(kernel.vars.size() - 1);
    if (kind == LoopKind::Range) kernel.range.push_back(v);
    return v;
  }
  /// A loop over the statements, all of which have axes `vars`.
  void loop(const std::vector<int>& vars, std::vector<ir::Statement> statements) {
    auto made = std::make_unique<ir::Loop>();
    made->var = vars.back();
    for (auto& s : statements) {
      kernel.placed.push_back({std::move(s), vars});
      made->body.push_back({nullptr, static_cast<int>(kernel.placed.size() - 1)});
    }
    kernel.body.push_back({std::move(made), -1});
  }
};

View slice(View v, int64_t first, int64_t count) {
  v.byte_offset += first * static_cast<int64_t>(c10::elementSize(v.dtype));
  v.sizes.back() = count;
  return v;
}

float widen(uint16_t x) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(x) << 16);
}
uint16_t narrow(float f) {
  auto u = __builtin_bit_cast(uint32_t, f);
  return static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

constexpr int64_t kB = 2, kH = 16, kS = 2048, kD = 128;

Case rope(ScalarType dtype) {
  Case c;
  std::vector<int64_t> half = {kB, kH, kS, kD / 2};
  View x[2], y[2];
  for (int t = 0; t < 2; ++t)
    x[t] = c.tensor({kB, kH, kS, kD}, dtype), y[t] = c.tensor({kB, kH, kS, kD}, dtype);
  View cos = c.tensor({kS, kD}, dtype), sin = c.tensor({kS, kD}, dtype);
  std::vector<int> vars = {c.var(kB, LoopKind::Range), c.var(kH, LoopKind::Range),
                           c.var(kS, LoopKind::Range), c.var(kD / 2, LoopKind::Vector)};
  std::vector<ir::Statement> statements;
  auto round = [&](Value v) { return v.to(dtype).to(at::kFloat); };
  for (int t = 0; t < 2; ++t)
    for (int part = 0; part < 2; ++part) {
      StatementBuilder s(half);
      int64_t own = part * kD / 2, other = kD / 2 - own;
      Value a = round(s.load(slice(x[t], own, kD / 2)).to(at::kFloat) *
                      s.load(slice(cos, own, kD / 2)).to(at::kFloat));
      Value b = round(s.load(slice(x[t], other, kD / 2)).to(at::kFloat) *
                      s.load(slice(sin, own, kD / 2)).to(at::kFloat));
      statements.push_back(s.store(slice(y[t], own, kD / 2), part == 0 ? a - b : a + b));
    }
  c.loop(vars, std::move(statements));
  return c;
}

void rope_f32_by_hand(const std::vector<char*>& m) {
  auto f = [&](int k) { return reinterpret_cast<float*>(m[static_cast<size_t>(k)]); };
  for (int t = 0; t < 2; ++t)
    at::parallel_for(0, kB * kH, 1, [&](int64_t begin, int64_t end) {
      for (int64_t h = begin; h < end; ++h)
        for (int64_t i = 0; i < kS; ++i) {
          const float* __restrict x = f(2 * t) + (h * kS + i) * kD, * __restrict c = f(4) + i * kD, * __restrict s = f(5) + i * kD;
          float* __restrict y = f(2 * t + 1) + (h * kS + i) * kD;
          for (int j = 0; j < 64; ++j) {
            y[j] = x[j] * c[j] - x[j + 64] * s[j];
            y[j + 64] = x[j + 64] * c[j + 64] + x[j] * s[j + 64];
          }
        }
    });
}

void rope_bf16_by_hand(const std::vector<char*>& m) {
  auto f = [&](int k) { return reinterpret_cast<uint16_t*>(m[static_cast<size_t>(k)]); };
  for (int t = 0; t < 2; ++t)
    at::parallel_for(0, kB * kH, 1, [&](int64_t begin, int64_t end) {
      for (int64_t h = begin; h < end; ++h)
        for (int64_t i = 0; i < kS; ++i) {
          const uint16_t* __restrict x = f(2 * t) + (h * kS + i) * kD, * __restrict c = f(4) + i * kD, * __restrict s = f(5) + i * kD;
          uint16_t* __restrict y = f(2 * t + 1) + (h * kS + i) * kD;
          for (int j = 0; j < 64; ++j) {
            float x0 = widen(x[j]), x1 = widen(x[j + 64]);
            y[j] = narrow(widen(narrow(x0 * widen(c[j]))) - widen(narrow(x1 * widen(s[j]))));
            y[j + 64] =
                narrow(widen(narrow(x1 * widen(c[j + 64]))) + widen(narrow(x0 * widen(s[j + 64]))));
          }
        }
    });
}

constexpr int64_t kRows = 4096, kColumns = 2048;

Case rms_norm() {
  Case c;
  View x = c.tensor({kRows, kColumns}, at::kBFloat16),
       r = c.tensor({kRows, kColumns}, at::kBFloat16);
  View h = c.tensor({kRows, kColumns}, at::kBFloat16),
       y = c.tensor({kRows, kColumns}, at::kBFloat16), w = c.tensor({kColumns}, at::kBFloat16);
  View scale = c.scratch({1, 1}, at::kFloat);
  int row = c.var(kRows, LoopKind::Range), a = c.var(kColumns, LoopKind::Vector),
      b = c.var(kColumns, LoopKind::Vector);
  StatementBuilder first({kRows, kColumns}), second({kRows, kColumns}), third({kRows, kColumns});
  ir::Statement s1 = first.store(h, first.load(x).to(at::kFloat) + first.load(r).to(at::kFloat));
  Value v = second.load(h).to(at::kFloat);
  Value mean = (second.reduce(ir::ReduceOp::Sum, v * v, {false, true}, at::kDouble) /
                static_cast<double>(kColumns))
                   .to(at::kFloat);
  ir::Statement s2 = second.store(ir::Access{scale.storage, at::kFloat, 0, {0, 0}, {}},
                                  1.0 / (mean + 1e-6).op(ir::Op::Sqrt));
  c.loop({row, a}, [&] {
    std::vector<ir::Statement> s;
    s.push_back(std::move(s1));
    s.push_back(std::move(s2));
    return s;
  }());
  Value n = (third.load(h).to(at::kFloat) *
             third.load(ir::Access{scale.storage, at::kFloat, 0, {0, 0}, {}}))
                .to(at::kBFloat16);
  c.loop({row, b}, [&] {
    std::vector<ir::Statement> s;
    s.push_back(third.store(y, n.to(at::kFloat) * third.load(w).to(at::kFloat)));
    return s;
  }());
  return c;
}

void rms_norm_by_hand(const std::vector<char*>& m) {
  auto f = [&](int k) { return reinterpret_cast<uint16_t*>(m[static_cast<size_t>(k)]); };
  at::parallel_for(0, kRows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const uint16_t* __restrict x = f(0) + i * kColumns, * __restrict r = f(1) + i * kColumns, * __restrict w = f(4);
      uint16_t* __restrict h = f(2) + i * kColumns, * __restrict y = f(3) + i * kColumns;
      float sums[64] = {};
      for (int64_t j = 0; j < kColumns; j += 64)
        for (int k = 0; k < 64; ++k) {
          h[j + k] = narrow(widen(x[j + k]) + widen(r[j + k]));
          float v = widen(h[j + k]);
          sums[k] += v * v;
        }
      float sum = 0;
      for (float s : sums) sum += s;
      float scale = 1 / __builtin_sqrtf(sum / kColumns + 1e-6f);
      for (int64_t j = 0; j < kColumns; ++j)
        y[j] = narrow(widen(narrow(widen(h[j]) * scale)) * widen(w[j]));
    }
  });
}

constexpr int64_t kWide = 4096 * 5632;

Case swiglu(ScalarType dtype) {
  Case c;
  View gate = c.tensor({kWide}, dtype), up = c.tensor({kWide}, dtype),
       out = c.tensor({kWide}, dtype);
  int v = c.var(kWide, LoopKind::Vector);
  StatementBuilder s({kWide});
  Value x = s.load(gate).to(at::kFloat);
  Value silu = (x / (ir::call(ir::Routine::VectorExp, -x) + 1.0)).to(dtype);
  std::vector<ir::Statement> statements;
  statements.push_back(s.store(out, silu.to(at::kFloat) * s.load(up).to(at::kFloat)));
  c.loop({v}, std::move(statements));
  return c;
}

__m512 exp512(__m512 x) {
  x = _mm512_min_ps(_mm512_max_ps(x, _mm512_set1_ps(-104.5f)), _mm512_set1_ps(104.5f));
  __m512 q = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), 8);
  __m512 s = _mm512_fmadd_ps(q, _mm512_set1_ps(-0.693145751953125f), x);
  s = _mm512_fmadd_ps(q, _mm512_set1_ps(-1.428606765330187045e-06f), s);
  __m512 u = _mm512_set1_ps(0.000198527617612853646278381f);
  for (float k : {0.00139304355252534151077271f, 0.00833336077630519866943359f,
                  0.0416664853692054748535156f, 0.166666671633720397949219f, 0.5f})
    u = _mm512_fmadd_ps(u, s, _mm512_set1_ps(k));
  u = _mm512_add_ps(_mm512_set1_ps(1), _mm512_fmadd_ps(_mm512_mul_ps(s, s), u, s));
  return _mm512_scalef_ps(u, q);
}

__m512 widen16(const uint16_t* p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(
      _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16));
}
__m256i narrow16(__m512 x) {
  __m512i u = _mm512_castps_si512(x);
  u = _mm512_add_epi32(
      u, _mm512_add_epi32(_mm512_set1_epi32(0x7fff),
                          _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1))));
  u = _mm512_mask_mov_epi32(_mm512_srli_epi32(u, 16), _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q),
                            _mm512_set1_epi32(0x7fc0));
  return _mm512_cvtepi32_epi16(u);
}

void swiglu_bf16_by_hand(const std::vector<char*>& m) {
  auto f = [&](int k) { return reinterpret_cast<uint16_t*>(m[static_cast<size_t>(k)]); };
  at::parallel_for(0, kWide / 16, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * 16; i < end * 16; i += 16) {
      __m512 x = widen16(f(0) + i), e = exp512(_mm512_xor_ps(x, _mm512_set1_ps(-0.f)));
      __m512 silu = _mm512_div_ps(x, _mm512_add_ps(e, _mm512_set1_ps(1)));
      silu = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(narrow16(silu)), 16));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(f(2) + i),
                          narrow16(_mm512_mul_ps(silu, widen16(f(1) + i))));
    }
  });
}
void swiglu_f32_by_hand(const std::vector<char*>& m) {
  auto f = [&](int k) { return reinterpret_cast<float*>(m[static_cast<size_t>(k)]); };
  at::parallel_for(0, kWide / 16, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * 16; i < end * 16; i += 16) {
      __m512 x = _mm512_loadu_ps(f(0) + i), e = exp512(_mm512_xor_ps(x, _mm512_set1_ps(-0.f)));
      _mm512_storeu_ps(f(2) + i,
                       _mm512_mul_ps(_mm512_div_ps(x, _mm512_add_ps(e, _mm512_set1_ps(1))),
                                     _mm512_loadu_ps(f(1) + i)));
    }
  });
}

constexpr int64_t kHeads = 16, kLength = 1024;

Case softmax() {
  Case c;
  std::vector<int64_t> sizes = {kHeads, kLength, kLength};
  View x = c.tensor(sizes, at::kFloat), mask = c.tensor({kLength, kLength}, at::kFloat),
       y = c.tensor(sizes, at::kFloat);
  View row = c.scratch({1, 1, kLength}, at::kFloat), top = c.scratch({1, 1, 1}, at::kFloat),
       sum = c.scratch({1, 1, 1}, at::kFloat);
  int h = c.var(kHeads, LoopKind::Range), q = c.var(kLength, LoopKind::Range);
  int a = c.var(kLength, LoopKind::Vector), b = c.var(kLength, LoopKind::Vector),
      d = c.var(kLength, LoopKind::Vector);
  ir::Access at_row{row.storage, at::kFloat, 0, {0, 0, 1}, {}},
      at_top{top.storage, at::kFloat, 0, {0, 0, 0}, {}},
      at_sum{sum.storage, at::kFloat, 0, {0, 0, 0}, {}};
  std::vector<bool> last = {false, false, true};
  auto list = [](auto... s) {
    std::vector<ir::Statement> all;
    (all.push_back(std::move(s)), ...);
    return all;
  };
  StatementBuilder s1(sizes), s2(sizes), s3(sizes), s4(sizes), s5(sizes);
  ir::Statement scaled = s1.store(at_row, s1.load(x) * 0.125 + s1.load(mask));
  ir::Statement most =
      s2.store(at_top, s2.reduce(ir::ReduceOp::Max, s2.load(at_row), last, at::kFloat));
  c.loop({h, q, a}, list(std::move(scaled), std::move(most)));
  ir::Statement exps =
      s3.store(at_row, ir::call(ir::Routine::NearExp, s3.load(at_row) - s3.load(at_top)));
  ir::Statement total = s4.store(
      at_sum, s4.reduce(ir::ReduceOp::Sum, s4.load(at_row), last, at::kDouble).to(at::kFloat));
  c.loop({h, q, b}, list(std::move(exps), std::move(total)));
  c.loop({h, q, d}, list(s5.store(y, s5.load(at_row) / s5.load(at_sum))));
  return c;
}

void softmax_by_hand(const std::vector<char*>& m) {
  auto f = [&](int k) { return reinterpret_cast<float*>(m[static_cast<size_t>(k)]); };
  at::parallel_for(0, kHeads * kLength, 1, [&](int64_t begin, int64_t end) {
    alignas(64) float row[kLength];
    for (int64_t i = begin; i < end; ++i) {
      const float *x = f(0) + i * kLength, *mask = f(1) + i % kLength * kLength;
      float* y = f(2) + i * kLength;
      __m512 top[4], sum[4];
      for (auto& t : top) t = _mm512_set1_ps(-__builtin_inff());
      for (auto& s : sum) s = _mm512_setzero_ps();
      for (int64_t j = 0; j < kLength; j += 64)
        for (int64_t k = 0; k < 4; ++k) {
          __m512 v =
              _mm512_add_ps(_mm512_mul_ps(_mm512_loadu_ps(x + j + 16 * k), _mm512_set1_ps(0.125f)),
                            _mm512_loadu_ps(mask + j + 16 * k));
          _mm512_store_ps(row + j + 16 * k, v);
          top[k] = _mm512_max_ps(top[k], v);
        }
      __m512 most = _mm512_set1_ps(_mm512_reduce_max_ps(
          _mm512_max_ps(_mm512_max_ps(top[0], top[1]), _mm512_max_ps(top[2], top[3]))));
      for (int64_t j = 0; j < kLength; j += 64)
        for (int64_t k = 0; k < 4; ++k) {
          __m512 e = exp512(_mm512_sub_ps(_mm512_load_ps(row + j + 16 * k), most));
          _mm512_store_ps(row + j + 16 * k, e);
          sum[k] = _mm512_add_ps(sum[k], e);
        }
      __m512 total = _mm512_set1_ps(_mm512_reduce_add_ps(
          _mm512_add_ps(_mm512_add_ps(sum[0], sum[1]), _mm512_add_ps(sum[2], sum[3]))));
      for (int64_t j = 0; j < kLength; j += 16)
        _mm512_storeu_ps(y + j, _mm512_div_ps(_mm512_load_ps(row + j), total));
    }
  });
}

/// Sums over the rows of a matrix: columns as lanes, rows in order.
Case column_sum() {
  Case c;
  View x = c.tensor({kRows, kColumns}, at::kFloat), y = c.tensor({kColumns}, at::kFloat);
  StatementBuilder s({kColumns, kRows});
  Value sum =
      s.reduce(ir::ReduceOp::Sum, s.load(ir::Access{x.storage, at::kFloat, 0, {1, kColumns}, {}}),
               {false, true}, at::kDouble)
          .to(at::kFloat);
  int column = c.var(kColumns, LoopKind::Vector), row = c.var(kRows, LoopKind::Serial);
  c.kernel.placed.push_back(
      {s.store(ir::Access{y.storage, at::kFloat, 0, {1, 0}, {}}, sum), {column, row}});
  auto outer = std::make_unique<ir::Loop>(), inner = std::make_unique<ir::Loop>();
  outer->var = column;
  inner->var = row;
  inner->body.push_back({nullptr, 0});
  outer->body.push_back({std::move(inner), -1});
  c.kernel.body.push_back({std::move(outer), -1});
  return c;
}

void column_sum_by_hand(const std::vector<char*>& m) {
  auto f = [&](int k) { return reinterpret_cast<float*>(m[static_cast<size_t>(k)]); };
  at::parallel_for(0, kColumns / 64, 1, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin * 64; j < end * 64; j += 64) {
      __m512d sum[8];
      for (auto& s : sum) s = _mm512_setzero_pd();
      for (int64_t i = 0; i < kRows; ++i)
        for (int64_t k = 0; k < 8; ++k)
          sum[k] = _mm512_add_pd(sum[k],
                                 _mm512_cvtps_pd(_mm256_loadu_ps(f(0) + i * kColumns + j + 8 * k)));
      for (int64_t k = 0; k < 8; ++k) _mm256_storeu_ps(f(1) + j + 8 * k, _mm512_cvtpd_ps(sum[k]));
    }
  });
}

/// One AdamW step of a parameter: four statements that read what those before them stored.
Case adamw() {
  Case c;
  constexpr int64_t kCount = 8 << 20;
  View p = c.tensor({kCount}, at::kFloat), g = c.tensor({kCount}, at::kFloat),
       m = c.tensor({kCount}, at::kFloat), v = c.tensor({kCount}, at::kFloat);
  int i = c.var(kCount, LoopKind::Vector);
  StatementBuilder s1({kCount}), s2({kCount}), s3({kCount}), s4({kCount});
  std::vector<ir::Statement> all;
  all.push_back(s1.store(p, s1.load(p) * s1.scalar(0.9999, at::kFloat)));
  all.push_back(s2.store(m, s2.load(m) + (s2.load(g) - s2.load(m)) * s2.scalar(0.1, at::kFloat)));
  all.push_back(s3.store(v, s3.load(v) * s3.scalar(0.999, at::kFloat) +
                                s3.load(g) * s3.load(g) * s3.scalar(0.001, at::kFloat)));
  Value denominator =
      s4.load(v).op(ir::Op::Sqrt) / s4.scalar(0.03, at::kFloat) + s4.scalar(1e-8, at::kFloat);
  all.push_back(s4.store(p, s4.load(p) - s4.load(m) / denominator * s4.scalar(0.001, at::kFloat)));
  c.loop({i}, std::move(all));
  return c;
}

void adamw_by_hand(const std::vector<char*>& memory) {
  auto f = [&](int k) { return reinterpret_cast<float*>(memory[static_cast<size_t>(k)]); };
  at::parallel_for(0, 8 << 20, 1, [&](int64_t begin, int64_t end) {
    float* __restrict p = f(0), * __restrict g = f(1), * __restrict m = f(2), * __restrict v = f(3);
    for (int64_t i = begin; i < end; ++i) {
      float x = p[i] * 0.9999f;
      m[i] = m[i] + (g[i] - m[i]) * 0.1f;
      v[i] = v[i] * 0.999f + g[i] * g[i] * 0.001f;
      p[i] = x - m[i] / (__builtin_sqrtf(v[i]) / 0.03f + 1e-8f) * 0.001f;
    }
  });
}

void run(benchmark::State& state, Case c, bool compiled) {
  std::vector<char*> memory;
  for (int64_t bytes : c.bytes) memory.push_back(allocate(bytes));
  codegen::Binding binding = codegen::bind(c.kernel);
  const ir::Kernel* kernel = &c.kernel;
  codegen::Backend& backend = codegen::host_backend();
  std::vector<codegen::Listing> listings;
  bool show = compiled && std::getenv("GRAFT_SHOW_CODE") != nullptr;
  auto began = std::chrono::steady_clock::now();
  codegen::Loaded code = backend.load(
      backend.compile({&kernel, 1}, codegen::host_target(1), show ? &listings : nullptr));
  double compile_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count();
  for (const codegen::Listing& listing : listings) std::printf("%s\n", listing.text.c_str());
  std::vector<char*> pointers;
  for (const auto& p : binding.pointers)
    pointers.push_back(memory[static_cast<size_t>(p.storage)] + p.byte_offset);
  codegen::LaunchArgs args{pointers.data(), binding.integers.data(), binding.scalars.data()};
  auto once = [&] {
    if (!compiled) return c.hand(memory);
    at::parallel_for(0, binding.range_extent, 1, [&](int64_t begin, int64_t end) {
      thread_local std::vector<char> scratch;
      scratch.resize(static_cast<size_t>(binding.scratch_bytes) + 64);
      auto aligned = (reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64;
      code.functions[0](&args, reinterpret_cast<char*>(aligned), begin, end);
    });
  };
  once();
  // The best of all runs too: it says more on a machine that is shared.
  double best = 1e9;
  for (auto _ : state) {
    auto start = std::chrono::steady_clock::now();
    once();
    best = std::min(
        best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
                  .count());
  }
  state.counters["best_ms"] = best;
  if (compiled) state.counters["compile_ms"] = compile_ms;
  for (char* m : memory) std::free(m);
}

void add(const std::string& name, const std::function<Case()>& make,
         void (*hand)(const std::vector<char*>&)) {
  benchmark::RegisterBenchmark((name + "/compiled").c_str(),
                               [=](benchmark::State& s) { run(s, make(), true); })
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime();
  if (!codegen::host_target(1).avx512()) return;
  benchmark::RegisterBenchmark((name + "/by_hand").c_str(),
                               [=](benchmark::State& s) {
                                 Case c = make();
                                 c.hand = hand;
                                 run(s, std::move(c), false);
                               })
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime();
}

}  // namespace

int main(int argc, char** argv) {
  add("rope_f32", [] { return rope(at::kFloat); }, rope_f32_by_hand);
  add("rope_bf16", [] { return rope(at::kBFloat16); }, rope_bf16_by_hand);
  add("rms_norm_bf16", rms_norm, rms_norm_by_hand);
  add("swiglu_bf16", [] { return swiglu(at::kBFloat16); }, swiglu_bf16_by_hand);
  add("swiglu_f32", [] { return swiglu(at::kFloat); }, swiglu_f32_by_hand);
  add("softmax_f32", softmax, softmax_by_hand);
  add("column_sum_f32", column_sum, column_sum_by_hand);
  add("adamw_f32", adamw, adamw_by_hand);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
