// Transcendental routines, one value at a time, out of the same libraries as compiled code.
#include <ATen/Version.h>
#include <dlfcn.h>

#include <array>
#include <cmath>
#include <stdexcept>
#include <string>
#include <unordered_map>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "support/scalars.h"

namespace graft::test {

namespace {

using ir::Routine;
using ir::RoutineInfo;
using ir::RoutineSource;

void* symbol(const std::string& name) {
  thread_local std::unordered_map<std::string, void*> known;
  void*& found = known[name];
  if (found == nullptr) found = dlsym(RTLD_DEFAULT, name.c_str());
  if (found == nullptr)
    throw std::logic_error("interpreter: no symbol " + name + " in libtorch or libm");
  return found;
}

template <class T>
const char* name_of(const RoutineInfo& routine) {
  return sizeof(T) == 4 ? routine.float_symbol : routine.double_symbol;
}

/// VML works on arrays: sixteen copies take the path that arrays take.
template <class T>
T call_vml(const RoutineInfo& routine, T a, T b) {
  constexpr int kCount = 16;
  constexpr int64_t kMode = 0x140102;  // HA | FTZDAZ_OFF | ERRMODE_IGNORE
  std::array<T, kCount> x, y, result;
  x.fill(a);
  y.fill(b);
  int n = kCount;
  void* function = symbol(name_of<T>(routine));
  if (routine.arity == 1)
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

/// "expf_u10" of width 16 is Sleef_expf16_u10; "exp_u10" of width 8 is Sleef_expd8_u10; "fmodf":
/// Sleef_fmodf16.
template <class T>
std::string sleef_name(std::string stem, int lanes) {
  std::string accuracy;
  if (size_t at = stem.rfind("_u"); at != std::string::npos)
    accuracy = stem.substr(at), stem.resize(at);
  return "Sleef_" + stem + (sizeof(T) == 4 ? "" : "d") + std::to_string(lanes) + accuracy;
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
T call_sleef(const RoutineInfo& routine, T a, T b) {
  std::string stem = name_of<T>(routine);
#if defined(__x86_64__)
  std::string capability = at::get_cpu_capability();
  constexpr int kLanes = 64 / sizeof(T);
  if (capability == "AVX512")
    return call512(symbol(sleef_name<T>(stem, kLanes)), routine.arity, a, b);
  if (capability == "AVX2")
    return call256(symbol(sleef_name<T>(stem, kLanes / 2)), routine.arity, a, b);
#endif
  // ATen's baseline vectors call libm lane by lane.
  return call_libm(stem.substr(0, stem.rfind("_u")), routine.arity, a, b);
}

template <class T>
T call(Routine id, T a, T b) {
  const RoutineInfo& routine = info(id);
  switch (routine.source) {
    case RoutineSource::Vml:
      return call_vml(routine, a, b);
    case RoutineSource::Sleef:
      return call_sleef(routine, a, b);
    case RoutineSource::Libm:
      return call_libm(name_of<T>(routine), routine.arity, a, b);
    case RoutineSource::Inline:
      break;
  }
  if (id == Routine::InlineExp) return static_cast<T>(std::exp(static_cast<double>(a)));
  throw std::logic_error("interpreter: no inline routine " + std::string(routine.name));
}

}  // namespace

Bits call_routine(Routine routine, c10::ScalarType type, Bits a, Bits b) {
  if (type == c10::ScalarType::Float)
    return to_bits(call(routine, from_bits<float>(a), from_bits<float>(b)));
  if (type == c10::ScalarType::Double)
    return to_bits(call(routine, from_bits<double>(a), from_bits<double>(b)));
  throw std::logic_error("interpreter: a routine computes in Float or Double");
}

}  // namespace graft::test
