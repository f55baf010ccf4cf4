#include "runtime/proof/compare.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e4m3fnuz.h>
#include <c10/util/Float8_e5m2.h>
#include <c10/util/Float8_e5m2fnuz.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

#include "ir/dtype.h"

namespace graft::runtime {

namespace {

using c10::ScalarType;

std::string position(int64_t flat, c10::IntArrayRef sizes) {
  std::vector<int64_t> at(sizes.size());
  for (size_t d = sizes.size(); d-- > 0;) {
    at[d] = flat % sizes[d];
    flat /= sizes[d];
  }
  std::string text = "[";
  for (size_t d = 0; d < at.size(); ++d) text += (d == 0 ? "" : ", ") + std::to_string(at[d]);
  return text + "]";
}

std::string number(double value) {
  std::ostringstream out;
  out.precision(17);
  out << value;
  return out.str();
}

struct Bounds {
  double relative = 0, absolute = 0;
};

Bounds bounds(const Tolerance& tolerance, ScalarType type, double largest) {
  if (tolerance.exact) return {};
  double e = std::max(ir::epsilon(type), ir::epsilon(tolerance.coarsest));
  bool narrow = e > ir::epsilon(ScalarType::Float);
  double r = narrow ? 2 : 84, s = narrow ? 2 : 16;
  return {tolerance.slack * r * e, tolerance.slack * s * e * largest};
}

/// What disturbing the plan's sums did to element `i`; 0 where that is no number.
template <class T>
double moved(const std::vector<const T*>& disturbed, const T* b, int64_t i) {
  double most = 0;
  for (const T* other : disturbed) {
    const double distance = std::abs(static_cast<double>(other[i]) - static_cast<double>(b[i]));
    if (std::isfinite(distance)) most = std::max(most, distance);
  }
  return most;
}

/// `lanes`: 2 for complex types, seen as pairs of reals.
template <class T>
void compare_floats(const T* a, const T* b, const std::vector<const T*>& disturbed, int64_t count,
                    int64_t lanes, c10::IntArrayRef sizes, ScalarType type,
                    const Tolerance& tolerance, Comparison& out) {
  double largest = 0;
  if (!tolerance.exact)
    for (int64_t i = 0; i < count; ++i) {
      double x = std::abs(static_cast<double>(a[i]));
      if (std::isfinite(x)) largest = std::max(largest, x);
    }
  Bounds bound = bounds(tolerance, type, largest);
  for (int64_t i = 0; i < count; ++i) {
    if (std::memcmp(a + i, b + i, sizeof(T)) == 0) continue;
    auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    if (std::isnan(x) && std::isnan(y)) continue;
    out.bitwise = false;
    double difference = std::abs(x - y);
    if (std::isfinite(difference)) out.max_abs = std::max(out.max_abs, difference);
    if (tolerance.either_zero && x == y) continue;
    const bool rounded = !tolerance.exact && std::isfinite(difference);
    if (rounded && difference <= bound.relative * std::abs(x) + bound.absolute +
                                     Tolerance::kReach * moved(disturbed, b, i))
      continue;
    out.maybe_rounding = out.maybe_rounding && rounded;
    if (!out.equal) continue;
    out.equal = false;
    out.what =
        "at " + position(i / lanes, sizes) + ": eager " + number(x) + ", compiled " + number(y);
  }
}

template <class T>
void compare_integers(const T* a, const T* b, int64_t count, c10::IntArrayRef sizes,
                      Comparison& out) {
  for (int64_t i = 0; i < count; ++i) {
    if (a[i] == b[i]) continue;
    auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    out.bitwise = out.maybe_rounding = false;
    out.max_abs = std::max(out.max_abs, std::abs(x - y));
    if (!out.equal) continue;
    out.equal = false;
    out.what = "at " + position(i, sizes) + ": eager " +
               std::to_string(static_cast<long long>(a[i])) + ", compiled " +
               std::to_string(static_cast<long long>(b[i]));
  }
}

void compare_bytes(const char* a, const char* b, int64_t count, size_t item, c10::IntArrayRef sizes,
                   Comparison& out) {
  for (int64_t i = 0; i < count && out.equal; ++i) {
    size_t offset = static_cast<size_t>(i) * item;
    if (std::memcmp(a + offset, b + offset, item) == 0) continue;
    out.bitwise = out.equal = out.maybe_rounding = false;
    out.what = "at " + position(i, sizes) + ": different bits";
  }
}

std::string layout_difference(const at::Tensor& expected, const at::Tensor& came) {
  std::ostringstream out;
  if (expected.scalar_type() != came.scalar_type())
    out << "dtype: eager " << expected.scalar_type() << ", compiled " << came.scalar_type();
  else if (expected.sizes() != came.sizes())
    out << "sizes: eager " << expected.sizes() << ", compiled " << came.sizes();
  else if (expected.strides() != came.strides())
    out << "strides: eager " << expected.strides() << ", compiled " << came.strides();
  return out.str();
}

}  // namespace

double Tolerance::slack_for(size_t operators) {
  return std::clamp(std::sqrt(static_cast<double>(operators)), 1.0, 4.0);
}

ScalarType coarser(ScalarType a, ScalarType b) {
  return ir::epsilon(b) > ir::epsilon(a) ? b : a;
}

Comparison compare(const at::Tensor& expected, const at::Tensor& came, const Tolerance& tolerance,
                   const std::vector<at::Tensor>& disturbed) {
  Comparison out;
  if (expected.defined() != came.defined()) {
    out.equal = out.bitwise = out.maybe_rounding = false;
    out.what = expected.defined() ? "eager gave a tensor, compiled an undefined one"
                                  : "eager gave an undefined tensor";
    return out;
  }
  if (!expected.defined()) return out;
  if (out.what = layout_difference(expected, came); !out.what.empty()) {
    out.equal = out.bitwise = out.maybe_rounding = false;
    return out;
  }
  at::NoGradGuard no_grad;
  at::Tensor a = expected.contiguous(), b = came.contiguous();
  const void* x = a.const_data_ptr();
  const void* y = b.const_data_ptr();
  if (a.numel() == 0 || std::memcmp(x, y, a.nbytes()) == 0) return out;
  ScalarType type = a.scalar_type();
  std::vector<at::Tensor> others;
  for (const at::Tensor& other : disturbed) others.push_back(other.contiguous());
  auto floats = [&]<class T>(T, int64_t lanes) {
    std::vector<const T*> moved;
    for (const at::Tensor& other : others)
      moved.push_back(static_cast<const T*>(other.const_data_ptr()));
    compare_floats(static_cast<const T*>(x), static_cast<const T*>(y), moved, a.numel() * lanes,
                   lanes, a.sizes(), type, tolerance, out);
  };
  auto integers = [&]<class T>(T) {
    compare_integers(static_cast<const T*>(x), static_cast<const T*>(y), a.numel(), a.sizes(), out);
  };
  switch (type) {
    case ScalarType::Double:
      floats(double(), 1);
      break;
    case ScalarType::Float:
      floats(float(), 1);
      break;
    case ScalarType::Half:
      floats(c10::Half(), 1);
      break;
    case ScalarType::BFloat16:
      floats(c10::BFloat16(), 1);
      break;
    case ScalarType::Float8_e4m3fn:
      floats(c10::Float8_e4m3fn(), 1);
      break;
    case ScalarType::Float8_e4m3fnuz:
      floats(c10::Float8_e4m3fnuz(), 1);
      break;
    case ScalarType::Float8_e5m2:
      floats(c10::Float8_e5m2(), 1);
      break;
    case ScalarType::Float8_e5m2fnuz:
      floats(c10::Float8_e5m2fnuz(), 1);
      break;
    case ScalarType::ComplexFloat:
      floats(float(), 2);
      break;
    case ScalarType::ComplexDouble:
      floats(double(), 2);
      break;
    case ScalarType::Bool:
    case ScalarType::Byte:
      integers(uint8_t());
      break;
    case ScalarType::Char:
      integers(int8_t());
      break;
    case ScalarType::Short:
      integers(int16_t());
      break;
    case ScalarType::Int:
      integers(int32_t());
      break;
    case ScalarType::Long:
      integers(int64_t());
      break;
    default:
      compare_bytes(static_cast<const char*>(x), static_cast<const char*>(y), a.numel(),
                    a.itemsize(), a.sizes(), out);
  }
  return out;
}

}  // namespace graft::runtime
