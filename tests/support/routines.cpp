// Transcendental routines, one value at a time, out of the same libraries as compiled code.
#include <dlfcn.h>

#include <array>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "codegen/array_formulas.h"
#include "codegen/backend.h"
#include "codegen/routine.h"
#include "support/scalars.h"

namespace graft::test {

namespace {

using codegen::RoutineSource;
using ir::Routine;

void* symbol(const std::string& name) {
  thread_local std::unordered_map<std::string, void*> known;
  void*& found = known[name];
  if (found == nullptr) found = dlsym(RTLD_DEFAULT, name.c_str());
  if (found == nullptr)
    throw std::logic_error("interpreter: no symbol " + name + " in libtorch or libm");
  return found;
}

/// VML works on arrays: sixteen copies take the path that arrays take.
template <class T>
T call_vml(const std::string& name, int arity, T a, T b) {
  constexpr int kCount = 16;
  constexpr int64_t kMode = 0x140102;  // HA | FTZDAZ_OFF | ERRMODE_IGNORE
  std::array<T, kCount> x, y, result;
  x.fill(a);
  y.fill(b);
  int n = kCount;
  void* function = symbol(name);
  if (arity == 1)
    reinterpret_cast<void (*)(const int*, const T*, T*, const int64_t*)>(function)(
        &n, x.data(), result.data(), &kMode);
  else
    reinterpret_cast<void (*)(const int*, const T*, const T*, T*, const int64_t*)>(function)(
        &n, x.data(), y.data(), result.data(), &kMode);
  return result[0];
}

template <class T>
T call_libm(const std::string& name, int arity, T a, T b) {
  void* function = symbol(name);
  return arity == 1 ? reinterpret_cast<T (*)(T)>(function)(a)
                    : reinterpret_cast<T (*)(T, T)>(function)(a, b);
}

#if defined(__x86_64__)
#define GRAFT_VECTOR_CALL(NAME, TARGET, VECTOR, SET, FIRST, T)                            \
  __attribute__((target(TARGET))) T NAME(void* function, int arity, T a, T b) {           \
    if (arity == 1) return FIRST(reinterpret_cast<VECTOR (*)(VECTOR)>(function)(SET(a))); \
    return FIRST(reinterpret_cast<VECTOR (*)(VECTOR, VECTOR)>(function)(SET(a), SET(b))); \
  }
GRAFT_VECTOR_CALL(call512, "avx512f", __m512, _mm512_set1_ps, _mm512_cvtss_f32, float)
GRAFT_VECTOR_CALL(call512, "avx512f", __m512d, _mm512_set1_pd, _mm512_cvtsd_f64, double)
GRAFT_VECTOR_CALL(call256, "avx2", __m256, _mm256_set1_ps, _mm256_cvtss_f32, float)
GRAFT_VECTOR_CALL(call256, "avx2", __m256d, _mm256_set1_pd, _mm256_cvtsd_f64, double)
#undef GRAFT_VECTOR_CALL
#endif

template <class T>
T call(Routine id, c10::ScalarType type, T a, T b) {
  const int arity = ir::info(id).arity;
  const codegen::RoutineCall call = codegen::routine_call(id, type, codegen::host_target(1));
  switch (call.source) {
    case RoutineSource::Vml:
      return call_vml(call.symbol, arity, a, b);
    case RoutineSource::Sleef:
#if defined(__x86_64__)
      return call.lanes * sizeof(T) == 64 ? call512(symbol(call.symbol), arity, a, b)
                                          : call256(symbol(call.symbol), arity, a, b);
#else
      break;
#endif
    case RoutineSource::Libm:
      return call_libm(call.symbol, arity, a, b);
    case RoutineSource::Inline:
      break;
  }
  if (id == Routine::FormulaSqrt) return static_cast<T>(codegen::array_sqrt(static_cast<float>(a)));
  if (id == Routine::FormulaFusedSqrt)
    return static_cast<T>(codegen::array_fused_sqrt(static_cast<float>(a)));
  if (id == Routine::FormulaExp) return static_cast<T>(codegen::array_exp(static_cast<float>(a)));
  if (id == Routine::FormulaSin || id == Routine::FormulaCos || id == Routine::FormulaTanh) {
    const auto x = static_cast<float>(a);
    std::optional<float> near;
    if (id == Routine::FormulaTanh)
      near = codegen::array_tanh(x);
    else if (std::abs(x) <= codegen::SineFormula::kLimit)
      near = id == Routine::FormulaSin ? codegen::array_sin(x) : codegen::array_cos(x);
    if (near) return static_cast<T>(*near);
    const Routine array = *ir::in_form(id, ir::RoutineForm::Array);
    return call_vml(codegen::routine_call(array, type, codegen::host_target(1)).symbol, 1, a, b);
  }
  if (id == Routine::FormulaLog) return static_cast<T>(codegen::array_log(static_cast<float>(a)));
  if (id == Routine::NearExp)  // of Float never subnormal
    return sizeof(T) == 4 && a < codegen::kLeastNormal
               ? 0
               : static_cast<T>(std::exp(static_cast<double>(a)));
  throw std::logic_error("interpreter: no inline routine " + std::string(ir::info(id).name));
}

}  // namespace

Bits call_routine(Routine routine, c10::ScalarType type, Bits a, Bits b) {
  if (type == c10::ScalarType::Float)
    return to_bits(call(routine, type, from_bits<float>(a), from_bits<float>(b)));
  if (type == c10::ScalarType::Double)
    return to_bits(call(routine, type, from_bits<double>(a), from_bits<double>(b)));
  throw std::logic_error("interpreter: a routine computes in Float or Double");
}

}  // namespace graft::test
