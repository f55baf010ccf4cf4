// Test data: random numbers of a domain, mixed with the values that kernels get wrong. Header-only,
// since the fuzzer uses it as well.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "ops/pointwise.h"
#include "support/scalars.h"

namespace graft::test {

/// SplitMix64: the same numbers on every machine and library version, which std's distributions do
/// not promise.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  int64_t below(int64_t n) {
    return n <= 1 ? 0 : static_cast<int64_t>(next() % static_cast<uint64_t>(n));
  }
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(next() >> 11) * 0x1p-53;
  }
  bool chance(double probability) { return uniform(0, 1) < probability; }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(below(static_cast<int64_t>(from.size())))];
  }

 private:
  uint64_t state_;
};

/// FNV-1a, so that a row's data does not depend on its place in a table.
inline uint64_t seed_of(std::string_view text, uint64_t more = 0) {
  uint64_t hash = 0xcbf29ce484222325 ^ more;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

/// A real number of the domain, for operand `k` of its row.
inline double real_in(ops::Domain domain, int k, Random& random) {
  using enum ops::Domain;
  switch (domain) {
    case Positive:
      return std::pow(10, random.uniform(-3, 3));
    case Unit:
      return random.uniform(-1, 1);
    case OpenUnit:
      return random.uniform(1e-3, 1 - 1e-3);
    case AboveOne:
      return 1 + std::pow(10, random.uniform(-3, 3));
    case Small:
      return random.uniform(-20, 20);
    case Power:
      return k == 0 ? std::pow(10, random.uniform(-2, 2)) : random.uniform(-4, 4);
    case Branching:
      if (random.chance(0.2)) return static_cast<double>(random.between(-6, 6)) / 2;
      return random.chance(0.5) ? random.uniform(-1, 1) : random.uniform(-20, 20);
    default:
      break;
  }
  if (random.chance(0.25)) return random.uniform(-1, 1) * std::exp2(random.uniform(-40, 40));
  if (random.chance(0.2)) return static_cast<double>(random.between(-6, 6)) / 2;
  return random.uniform(-4, 4);
}

template <class T>
T integer_in(ops::Domain domain, int k, Random& random) {
  using enum ops::Domain;
  constexpr int kBits = std::is_same_v<T, bool> ? 1 : static_cast<int>(8 * sizeof(T));
  auto any = [&] { return static_cast<T>(random.chance(0.5) ? random.next() : random.next() % 7); };
  switch (domain) {
    case Positive:
    case AboveOne:
      return static_cast<T>(random.between(1, 100));
    case Unit:
    case OpenUnit:
      return static_cast<T>(random.between(0, 1));
    case Small:
      return static_cast<T>(random.between(std::is_signed_v<T> ? -20 : 0, 20));
    case Power:
      return static_cast<T>(k == 0 ? random.between(0, 5) : random.between(0, 4));
    case ShiftCount:
      if (k == 0) return any();
      return static_cast<T>(random.between(std::is_signed_v<T> ? -1 : 0, kBits));
    case Divisor: {
      T value = any();
      // The smallest number over -1 is undefined in C++, and stops the process in eager where the
      // type is as wide as int.
      if (k > 0 && (value == T(0) || (sizeof(T) >= 4 && value == static_cast<T>(-1)))) return T(1);
      return value;
    }
    default:
      return any();
  }
}

inline bool is_allowed(ops::Domain domain, int k, double value) {
  if (domain != ops::Domain::Branching || k == 0) return true;
  return !std::isnan(value) && !(value == 0 && std::signbit(value));
}

/// What kernels get wrong: NaN, infinities, zeros, subnormals, limits.
template <class T>
std::vector<T> special_values(ops::Domain domain, int k) {
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_same_v<T, bool>) {
    if (domain == ops::Domain::Divisor && k > 0) return {true};
    return {false, true};
  } else if constexpr (std::is_integral_v<T>) {
    if (domain == ops::Domain::ShiftCount && k > 0) return {T(0), T(1)};
    if (domain == ops::Domain::Power) return {T(0), T(1), T(2)};
    std::vector<T> values = {T(1), T(2), Limits::min(), Limits::max()};
    if (domain != ops::Domain::Divisor || k == 0) values.push_back(T(0));
    // What fp32 and double round when they take an integer.
    if constexpr (sizeof(T) >= 4) values.push_back(static_cast<T>((1 << 24) + 1));
    if constexpr (sizeof(T) >= 8) values.push_back(static_cast<T>((int64_t{1} << 53) + 1));
    if constexpr (std::is_signed_v<T>)
      if (domain != ops::Domain::Divisor || k == 0 || sizeof(T) < 4) values.push_back(T(-1));
    if (domain == ops::Domain::Divisor && k > 0) std::erase(values, T(0));
    return values;
  } else {
    auto t = [](double v) { return static_cast<T>(static_cast<float>(v)); };
    std::vector<T> values = {Limits::quiet_NaN(),
                             t(std::numeric_limits<float>::infinity()),
                             t(-std::numeric_limits<float>::infinity()),
                             t(0.0),
                             t(-0.0),
                             Limits::denorm_min(),
                             -Limits::denorm_min(),
                             Limits::min(),
                             -Limits::min(),
                             Limits::max(),
                             Limits::lowest(),
                             t(1),
                             t(-1),
                             t(0.5),
                             t(-0.5),
                             t(1.5),
                             t(2.5),
                             t(-2),
                             t(3),
                             static_cast<T>(Limits::min() / 3),  // a subnormal of several bits
                             t(1 - 0x1p-24),  // just below 1, or 1 where that is not held
                             t(255.5),
                             t(16777217.0),  // the first integer that fp32 rounds
                             t(8388607.5)};  // the largest half that it holds
    std::erase_if(values, [&](T value) { return !is_allowed(domain, k, value); });
    return values;
  }
}

/// `count` values in a new 1-d tensor. About one in five is special when `specials`.
inline at::Tensor random_values(at::ScalarType type, ops::Domain domain, int k, int64_t count,
                                Random& random, bool specials = true) {
  at::Tensor out = at::empty({count}, type);
  with_type(type, [&]<class T>(T) {
    T* data = static_cast<T*>(out.mutable_data_ptr());
    std::vector<T> special = special_values<T>(domain, k);
    for (int64_t i = 0; i < count; ++i) {
      if (specials && random.chance(0.2)) {
        data[i] = special[static_cast<size_t>(random.below(static_cast<int64_t>(special.size())))];
      } else if constexpr (std::is_integral_v<T>) {
        data[i] = integer_in<T>(domain, k, random);
      } else if constexpr (std::is_same_v<T, double>) {
        data[i] = real_in(domain, k, random);
      } else {
        data[i] = static_cast<T>(static_cast<float>(real_in(domain, k, random)));
      }
      if constexpr (!std::is_integral_v<T>)
        if (!is_allowed(domain, k, data[i])) data[i] = T(1);
    }
  });
  return out;
}

/// Every value of a 16-bit type.
inline at::Tensor all_16_bit_values(at::ScalarType type) {
  at::Tensor out = at::empty({65536}, type);
  auto* bits = static_cast<uint16_t*>(out.mutable_data_ptr());
  for (int i = 0; i < 65536; ++i) bits[i] = static_cast<uint16_t>(i);
  return out;
}

}  // namespace graft::test
