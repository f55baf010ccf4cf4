// One pass over two arrays, in chunks on ATen's threads.
#include "lab/accuracy/tally.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace graft::lab {
namespace {

constexpr int64_t kChunk = 1 << 15;  // elements; a thread's unit of work
constexpr int64_t kBlock = 1 << 10;  // elements; looked at one by one unless all bits are equal

template <class T>
constexpr bool kFloating = !std::is_integral_v<T>;  // c10's short floats are classes

void add(ErrorSum& to, const ErrorSum& from) {
  to.max = std::max(to.max, from.max);
  to.sum += from.sum;
  to.non_finite += from.non_finite;
}

void add(Tally& to, const Tally& from) {
  to.ulps.add(from.ulps);
  to.different += from.different;
  to.without_relative += from.without_relative;
  to.ulp.see(from.ulp.value, from.ulp.at);
  to.abs.see(from.abs.value, from.abs.at);
  to.rel.see(from.rel.value, from.rel.at);
  if (to.mismatch < 0) to.mismatch = from.mismatch;
  to.sum_abs += from.sum_abs;
  to.sum_rel += from.sum_rel;
  add(to.candidate, from.candidate);
  add(to.reference, from.reference);
  to.largest = std::max(to.largest, from.largest);
  to.candidate_nearer += from.candidate_nearer;
  to.reference_nearer += from.reference_nearer;
}

template <class T>
double value_of(T x) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<double>(x);
  } else {
    return static_cast<float>(x);
  }
}

/// Numbers that are neighbours become integers that are neighbours. Not for NaN.
template <class T>
int64_t ordered(T x) {
  using Bits =
      std::conditional_t<sizeof(T) == 8, int64_t,
                         std::conditional_t<sizeof(T) == 4, int32_t,
                                            std::conditional_t<sizeof(T) == 2, int16_t, int8_t>>>;
  Bits bits;
  std::memcpy(&bits, &x, sizeof bits);
  if (bits >= 0) return bits;
  return -static_cast<int64_t>(bits & std::numeric_limits<Bits>::max());
}

uint64_t distance(int64_t a, int64_t b) {
  return a > b ? static_cast<uint64_t>(a) - static_cast<uint64_t>(b)
               : static_cast<uint64_t>(b) - static_cast<uint64_t>(a);
}

void see_difference(Tally& tally, double difference, double reference, int64_t position) {
  tally.sum_abs += difference;
  tally.abs.see(difference, position);
  if (reference == 0) {
    ++tally.without_relative;
    return;
  }
  const double relative = difference / std::abs(reference);
  tally.sum_rel += relative;
  tally.rel.see(relative, position);
}

/// Two elements of different bits.
template <class T>
void compare_elements(T c, T r, int64_t position, Tally& tally) {
  if constexpr (!kFloating<T>) {
    ++tally.different;
    const uint64_t difference = distance(static_cast<int64_t>(c), static_cast<int64_t>(r));
    see_difference(tally, static_cast<double>(difference), value_of(r), position);
  } else {
    const double x = value_of(c), y = value_of(r);
    if (std::isnan(x) && std::isnan(y)) {
      ++tally.ulps.counts[0];
      return;
    }
    ++tally.different;
    if (std::isnan(x) || std::isnan(y) || std::isinf(x) || std::isinf(y)) {
      ++(std::isnan(x) || std::isnan(y) ? tally.ulps.nan_mismatches : tally.ulps.inf_mismatches);
      if (tally.mismatch < 0) tally.mismatch = position;
      return;
    }
    if (x == y) {
      ++tally.ulps.signed_zeros;
      return;
    }
    const uint64_t ulps = distance(ordered(c), ordered(r));
    ++tally.ulps.counts[static_cast<size_t>(UlpHistogram::bucket(ulps))];
    tally.ulp.see(static_cast<double>(ulps), position);
    see_difference(tally, std::abs(x - y), y, position);
  }
}

/// Returns the error, infinite where only one is finite.
double see_error(ErrorSum& to, double value, double exact) {
  const bool special = !std::isfinite(value) || !std::isfinite(exact);
  if (special && (value == exact || (std::isnan(value) && std::isnan(exact)))) return 0;
  if (special) {
    ++to.non_finite;
    return std::numeric_limits<double>::infinity();
  }
  const double error = std::abs(value - exact);
  to.max = std::max(to.max, error);
  to.sum += error;
  return error;
}

void compare_with_fp64(double candidate, double reference, double exact, Tally& tally) {
  if (std::isfinite(exact)) tally.largest = std::max(tally.largest, std::abs(exact));
  const double c = see_error(tally.candidate, candidate, exact);
  const double r = see_error(tally.reference, reference, exact);
  tally.candidate_nearer += c < r;
  tally.reference_nearer += r < c;
}

template <class T>
void compare_chunk(const T* c, const T* r, const double* exact, int64_t begin, int64_t end,
                   Tally& tally) {
  for (int64_t first = begin; first < end; first += kBlock) {
    const int64_t last = std::min(end, first + kBlock);
    const size_t size = static_cast<size_t>(last - first) * sizeof(T);
    if (std::memcmp(c + first, r + first, size) == 0) {
      tally.ulps.counts[0] += last - first;
    } else {
      for (int64_t i = first; i < last; ++i) {
        if (std::memcmp(c + i, r + i, sizeof(T)) == 0) {
          ++tally.ulps.counts[0];
        } else {
          compare_elements(c[i], r[i], i, tally);
        }
      }
    }
    if (exact == nullptr) continue;
    for (int64_t i = first; i < last; ++i)
      compare_with_fp64(value_of(c[i]), value_of(r[i]), exact[i], tally);
  }
}

/// The chunks' tallies are added in their order, whichever thread made them: the sums round alike.
template <class T>
Tally compare_all(const void* candidate, const void* reference, const double* exact,
                  int64_t count) {
  const int64_t chunks = (count + kChunk - 1) / kChunk;
  std::vector<Tally> tallies(static_cast<size_t>(chunks));
  at::parallel_for(0, chunks, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      compare_chunk(static_cast<const T*>(candidate), static_cast<const T*>(reference), exact,
                    i * kChunk, std::min(count, (i + 1) * kChunk), tallies[static_cast<size_t>(i)]);
    }
  });
  Tally total;
  for (const Tally& tally : tallies) add(total, tally);
  if constexpr (!kFloating<T>) total.ulps = {};
  return total;
}

template <class T>
ElementKind kind_of() {
  double epsilon = 0;
  if constexpr (kFloating<T>) epsilon = value_of(std::numeric_limits<T>::epsilon());
  return {compare_all<T>,
          [](const void* data, int64_t i) { return value_of(static_cast<const T*>(data)[i]); },
          kFloating<T>, epsilon};
}

}  // namespace

ElementKind element_kind(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return kind_of<double>();
    case at::kFloat:
      return kind_of<float>();
    case at::kHalf:
      return kind_of<at::Half>();
    case at::kBFloat16:
      return kind_of<at::BFloat16>();
    case at::kFloat8_e4m3fn:
      return kind_of<at::Float8_e4m3fn>();
    case at::kFloat8_e5m2:
      return kind_of<at::Float8_e5m2>();
    case at::kBool:
    case at::kByte:
      return kind_of<uint8_t>();
    case at::kChar:
      return kind_of<int8_t>();
    case at::kShort:
      return kind_of<int16_t>();
    case at::kInt:
      return kind_of<int32_t>();
    case at::kLong:
      return kind_of<int64_t>();
    case at::kUInt16:
      return kind_of<uint16_t>();
    case at::kUInt32:
      return kind_of<uint32_t>();
    default:
      throw std::invalid_argument(
          std::string("accuracy: came a tensor of ") + at::toString(type) +
          ", expected a real or complex one of ATen's number types; convert it first, for example "
          "with .dequantize() or .to(at::kLong).");
  }
}

}  // namespace graft::lab
