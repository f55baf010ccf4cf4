// How tests compare tensors: by their bits, where a NaN is a NaN whatever its sign and payload.
// at::equal() is no such comparison: to it +0 is -0, and no NaN equals another.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "support/scalars.h"

namespace graft::test {

using Tensors = std::vector<at::Tensor>;

inline std::string describe(const at::Tensor& t) {
  if (!t.defined()) return "undefined";
  std::ostringstream out;
  out << c10::toString(t.scalar_type()) << t.sizes() << ":" << t.strides();
  return out.str();
}

/// Bits of a floating value as an integer that grows with the value; -0 and +0 are one.
template <class T>
int64_t ordered_bits(T value) {
  if constexpr (sizeof(T) == 2) {
    uint16_t bits = static_cast<uint16_t>(to_bits(value));
    return bits & 0x8000 ? -static_cast<int64_t>(bits & 0x7fff) : bits;
  } else if constexpr (sizeof(T) == 4) {
    auto bits = static_cast<uint32_t>(to_bits(value));
    return bits & 0x80000000u ? -static_cast<int64_t>(bits & 0x7fffffffu) : bits;
  } else {
    uint64_t bits = to_bits(value);
    return bits >> 63 ? -static_cast<int64_t>(bits & 0x7fffffffffffffff)
                      : static_cast<int64_t>(bits);
  }
}

/// Units in the last place between two values; 0 for two NaN, huge when only one is.
template <class T>
double ulps_between(T a, T b) {
  auto x = static_cast<double>(a), y = static_cast<double>(b);
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y) ? 0 : 1e300;
  // Of opposite signs the difference may not fit.
  int64_t first = ordered_bits(a), second = ordered_bits(b);
  bool fits = (first < 0) == (second < 0);
  return fits ? static_cast<double>(std::abs(first - second))
              : std::abs(static_cast<double>(first) - static_cast<double>(second));
}

/// As `ulps`: the same bits but for the sign of a zero.
inline constexpr double kZeroSigns = 0.5;

/// Is the value about to leave the finite numbers, or has left them?
template <class T>
bool overflowing(T value) {
  return !(std::abs(static_cast<double>(value)) <
           static_cast<double>(std::numeric_limits<T>::max()) / 4);
}

/// Are two values the same? `ulps` 0 asks for the same bits, except that a NaN is a NaN. With
/// `ulps` of 1 or more, eager may have left the finite numbers where the other is about to: another
/// rounding overflows elsewhere.
template <class T>
bool agree(T a, T b, double ulps) {
  if (std::memcmp(&a, &b, sizeof(T)) == 0) return true;
  if constexpr (std::is_integral_v<T>) {
    return false;
  } else {
    if (std::isnan(static_cast<double>(a)) && std::isnan(static_cast<double>(b))) return true;
    bool left = ulps >= 1 && !std::isfinite(static_cast<double>(a)) && overflowing(b);
    return ulps > 0 && (left || ulps_between(a, b) <= ulps);
  }
}

template <class T>
std::string number_text(T value) {
  std::ostringstream out;
  out.precision(17);
  if constexpr (std::is_integral_v<T>) {
    out << static_cast<int64_t>(value);
  } else {
    out << static_cast<double>(value) << " (0x" << std::hex << to_bits(value) << ")";
  }
  return out.str();
}

inline std::string index_text(int64_t flat, at::IntArrayRef sizes) {
  std::vector<int64_t> at(sizes.size());
  for (size_t d = sizes.size(); d-- > 0;) at[d] = flat % sizes[d], flat /= sizes[d];
  std::ostringstream out;
  out << at::IntArrayRef(at);
  return out.str();
}

/// Empty when dtype, sizes and strides agree.
inline std::string layout_difference(const at::Tensor& eager, const at::Tensor& came) {
  if (eager.defined() == came.defined() && !eager.defined()) return {};
  if (eager.defined() && came.defined() && eager.scalar_type() == came.scalar_type() &&
      eager.sizes() == came.sizes() && eager.strides() == came.strides())
    return {};
  return "layout: eager " + describe(eager) + ", compiled " + describe(came);
}

/// Empty when all values agree; otherwise the first that does not, and how many.
inline std::string value_difference(const at::Tensor& eager, const at::Tensor& came,
                                    double ulps = 0) {
  if (!eager.defined() || eager.numel() == 0) return {};
  at::Tensor a = eager.contiguous(), b = came.contiguous();
  if (std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0) return {};
  return with_type(a.scalar_type(), [&]<class T>(T) -> std::string {
    const T* x = static_cast<const T*>(a.const_data_ptr());
    const T* y = static_cast<const T*>(b.const_data_ptr());
    std::string first;
    int64_t count = 0;
    for (int64_t i = 0; i < a.numel(); ++i) {
      if (agree(x[i], y[i], ulps)) continue;
      if (count++ == 0)
        first = "at " + index_text(i, a.sizes()) + ": eager " + number_text(x[i]) + ", compiled " +
                number_text(y[i]);
    }
    if (count == 0) return {};
    return first + "; " + std::to_string(count) + " of " + std::to_string(a.numel()) +
           " values of " + describe(eager);
  });
}

/// Empty where at::allclose holds, NaN by NaN; otherwise the first element that is not close.
inline std::string far_from(const at::Tensor& eager, const at::Tensor& came, double relative,
                            double absolute) {
  if (at::allclose(eager, came, relative, absolute, /*equal_nan=*/true)) return {};
  const at::Tensor close = at::isclose(eager, came, relative, absolute, true).reshape(-1);
  const auto at = close.logical_not().to(at::kByte).argmax().item<int64_t>();
  std::ostringstream out;
  out << "at " << index_text(at, eager.sizes()) << ": eager "
      << eager.reshape(-1)[at].item<double>() << ", compiled "
      << came.reshape(-1)[at].item<double>() << "; " << close.logical_not().sum().item<int64_t>()
      << " of " << close.numel() << " values of " << describe(eager);
  return out.str();
}

/// Empty when dtype, sizes and all values agree; strides may differ.
inline std::string content_difference(const at::Tensor& eager, const at::Tensor& came) {
  if (eager.defined() == came.defined() && eager.defined() &&
      eager.scalar_type() == came.scalar_type() && eager.sizes() == came.sizes())
    return value_difference(eager, came);
  return layout_difference(eager, came);
}

/// Both layout and values.
inline std::string difference(const at::Tensor& eager, const at::Tensor& came, double ulps = 0) {
  std::string layout = layout_difference(eager, came);
  return layout.empty() ? value_difference(eager, came, ulps) : layout;
}

/// Same dtype, sizes, strides and bits.
inline ::testing::AssertionResult same(const at::Tensor& came, const at::Tensor& expected) {
  if (std::string why = difference(expected, came); !why.empty())
    return ::testing::AssertionFailure() << why;
  return ::testing::AssertionSuccess();
}

}  // namespace graft::test
