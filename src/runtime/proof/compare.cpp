#include "runtime/proof/compare.h"

#include <ATen/Parallel.h>
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
#include <limits>
#include <mutex>
#include <sstream>
#include <vector>

#include "passes/disturb.h"
#include "tensor/dtype.h"

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
  double e = std::max(epsilon(type), epsilon(tolerance.coarsest));
  double r = 1e4, s = 1e2;
  if (e > epsilon(ScalarType::Float))
    r = s = 2;
  else if (e > epsilon(ScalarType::Double))
    r = 84, s = 16;
  return {tolerance.slack * r * e, tolerance.slack * s * e * largest};
}

/// The tensors that are compared, as elements.
template <class T>
struct Elements {
  const T* eager;
  const T* compiled;
  std::vector<const T*> disturbed = {}, strongly = {};
  const T* reference = nullptr;
};

/// What disturbing the plan's sums did to element `i`; 0 where that is no number.
template <class T>
double moved(const std::vector<const T*>& disturbed, int64_t i) {
  double most = 0;
  for (const T* other : disturbed) {
    const double distance =
        std::abs(static_cast<double>(other[i]) - static_cast<double>(disturbed.front()[i]));
    if (std::isfinite(distance)) most = std::max(most, distance);
  }
  return most;
}

/// Elements that rounding decides: what is left of a sum that cancels, or its sign, which Adam
/// scales up. Disturbances are few samples: such an element may happen to stand. But stronger ones
/// do not carry it, and others like it, as much further as they are stronger: they let them jump,
/// or no further than before. So one that was moved at all may be as far from eager's as it is if
/// there are no more such elements than twice as many as go half as far, in such a way: among its
/// neighbours in memory; or in the whole tensor, for a few that lie alone.
template <class T>
class Noise {
 public:
  Noise(const Elements<T>& all, int64_t count) : all_(all), count_(count) {}

  bool explains(int64_t i) {
    const double distance = apart(i);
    if (!std::isfinite(distance) || moved(all_.disturbed, i) == 0) return false;
    if (are_few(i, distance, std::max<int64_t>(0, i - Tolerance::kNeighbours),
                std::min(count_, i + Tolerance::kNeighbours + 1)))
      return true;
    const int64_t most = std::min(Tolerance::kAlone, 1 + count_ / Tolerance::kAloneOf);
    return ++alone_ <= most && are_few(i, distance, 0, count_);
  }

 private:
  double apart(const T* other, int64_t k) const {
    return std::abs(static_cast<double>(all_.eager[k]) - static_cast<double>(other[k]));
  }
  double apart(int64_t k) const { return apart(all_.compiled, k); }
  /// Of elements from `first` to `end`. That eager is far from the reference, too, speaks for noise
  /// in others, but not for `of` itself.
  bool are_few(int64_t of, double distance, int64_t first, int64_t end) const {
    int64_t are = 0, may_be = 0;
    for (int64_t k = first; k < end; ++k) {
      are += apart(k) >= distance;
      if (k != of && all_.reference != nullptr && apart(all_.reference, k) >= distance) {
        ++may_be;
        continue;
      }
      const double strong = moved(all_.strongly, k);
      if (Tolerance::kReach * strong < distance) continue;
      const double carried = passes::kStrong * moved(all_.disturbed, k);
      may_be += strong * Tolerance::kUnlike <= carried || strong >= Tolerance::kUnlike * carried;
    }
    return are <= 2 * may_be;
  }

  const Elements<T>& all_;
  const int64_t count_;
  int64_t alone_ = 0;
};

/// Elements that are compared at a time, and that are a thread's share at least: a proof holds up
/// its call.
constexpr int64_t kBlock = 1024, kShare = 64 * kBlock;

/// The largest finite magnitude.
template <class T>
double largest(const T* a, int64_t count) {
  const auto of_part = [a](int64_t begin, int64_t end, double most) {
    for (int64_t i = begin; i < end; ++i) {
      const double x = std::abs(static_cast<double>(a[i]));
      const double finite = x <= std::numeric_limits<double>::max() ? x : 0;
      most = finite > most ? finite : most;
    }
    return most;
  };
  return at::parallel_reduce(int64_t{0}, count, kShare, 0.0, of_part,
                             [](double x, double y) { return std::max(x, y); });
}

/// Are all finite and within the bounds? A loop without branches, for the usual case.
template <class T>
bool all_within(const T* a, const T* b, int64_t count, const Bounds& bound, double& max_abs) {
  double most = 0;
  bool within = true;
  for (int64_t i = 0; i < count; ++i) {
    const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    const double apart = std::abs(x - y);
    const bool near = apart <= bound.relative * std::abs(x) + bound.absolute;
    within &= near & (apart <= std::numeric_limits<double>::max());
    most = apart > most ? apart : most;
  }
  if (within) max_abs = std::max(max_abs, most);
  return within;
}

/// Where blocks begin that are neither the same nor all within the bounds, in order. Of the others
/// `out` says how far they are apart.
template <class T>
std::vector<int64_t> blocks_apart(const T* a, const T* b, int64_t count, bool exact,
                                  const Bounds& bound, Comparison& out) {
  std::mutex mutex;
  std::vector<int64_t> apart;
  const int64_t blocks = (count + kBlock - 1) / kBlock;
  at::parallel_for(0, blocks, kShare / kBlock, [&](int64_t begin, int64_t end) {
    bool bitwise = true;
    double most = 0;
    std::vector<int64_t> own;
    for (int64_t i = begin * kBlock; i < std::min(end * kBlock, count); i += kBlock) {
      const int64_t block = std::min(kBlock, count - i);
      if (std::memcmp(a + i, b + i, static_cast<size_t>(block) * sizeof(T)) == 0) continue;
      if (!exact && all_within(a + i, b + i, block, bound, most))
        bitwise = false;
      else
        own.push_back(i);
    }
    const std::lock_guard lock(mutex);
    out.bitwise = out.bitwise && bitwise;
    out.max_abs = std::max(out.max_abs, most);
    apart.insert(apart.end(), own.begin(), own.end());
  });
  std::sort(apart.begin(), apart.end());
  return apart;
}

/// `lanes`: 2 for complex types, seen as pairs of reals.
template <class T>
void compare_floats(const Elements<T>& all, int64_t count, int64_t lanes, c10::IntArrayRef sizes,
                    ScalarType type, const Tolerance& tolerance, Comparison& out) {
  const T *a = all.eager, *b = all.compiled, *reference = all.reference;
  auto bounds_of = [&](const T* side) {
    const bool used = side != nullptr && !tolerance.exact;
    return used ? bounds(tolerance, type, largest(side, count)) : Bounds{};
  };
  const Bounds near_eager = bounds_of(a), near_reference = bounds_of(reference);
  Noise<T> noise(all, count);
  for (const int64_t first : blocks_apart(a, b, count, tolerance.exact, near_eager, out)) {
    for (int64_t i = first; i < std::min(first + kBlock, count); ++i) {
      if (std::memcmp(a + i, b + i, sizeof(T)) == 0) continue;
      auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
      if (std::isnan(x) && std::isnan(y)) continue;
      out.bitwise = false;
      double difference = std::abs(x - y);
      if (std::isfinite(difference)) out.max_abs = std::max(out.max_abs, difference);
      if (tolerance.either_zero && x == y) continue;
      const double reach = tolerance.exact ? 0 : Tolerance::kReach * moved(all.disturbed, i);
      auto within = [&](double of, const Bounds& bound) {
        const double apart = std::abs(of - y);
        return !tolerance.exact && std::isfinite(apart) &&
               apart <= bound.relative * std::abs(of) + bound.absolute + reach;
      };
      if (within(x, near_eager)) continue;
      if (reference != nullptr) {
        const auto r = static_cast<double>(reference[i]);
        const bool agrees = r == y || (std::isnan(r) && std::isnan(y)) || within(r, near_reference);
        const bool no_further = std::isfinite(difference) && std::abs(r - y) <= std::abs(r - x);
        if (agrees || no_further) {
          out.by_reference = true;
          continue;
        }
      }
      out.maybe_rounding = out.maybe_rounding && !tolerance.exact;
      if (!out.equal || (!tolerance.exact && noise.explains(i))) continue;
      out.equal = false;
      out.what =
          "at " + position(i / lanes, sizes) + ": eager " + number(x) + ", compiled " + number(y);
      if (reference != nullptr)
        out.what += ", by fp64 " + number(static_cast<double>(reference[i]));
    }
  }
}

/// Do disturbances take the element as far as eager's and the plan's? Where a number is rounded to
/// an integer, compared or counted, its sums' roundings decide on which side of a tie it is.
template <class T>
bool are_within_disturbed(const Elements<T>& all, int64_t i) {
  if (all.disturbed.empty()) return false;
  T least = all.disturbed.front()[i], most = least;
  bool seen = false;
  for (const T* other : all.disturbed) {
    least = std::min(least, other[i]), most = std::max(most, other[i]);
    seen = seen || other[i] == all.eager[i];
  }
  // Counts move step by step, places jump.
  constexpr double kSteps = 16;
  if (!seen && static_cast<double>(most) - static_cast<double>(least) > kSteps) return false;
  return least <= std::min(all.eager[i], all.compiled[i]) &&
         std::max(all.eager[i], all.compiled[i]) <= most;
}

template <class T>
void compare_integers(const Elements<T>& all, int64_t count, c10::IntArrayRef sizes,
                      const Tolerance& tolerance, Comparison& out) {
  const T *a = all.eager, *b = all.compiled;
  for (int64_t i = 0; i < count; ++i) {
    if (a[i] == b[i]) continue;
    auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    out.bitwise = false;
    out.max_abs = std::max(out.max_abs, std::abs(x - y));
    if (all.reference != nullptr && all.reference[i] == b[i]) {
      out.by_reference = true;
      continue;
    }
    out.maybe_rounding = out.maybe_rounding && !tolerance.exact;
    if (!out.equal || (!tolerance.exact && are_within_disturbed(all, i))) continue;
    out.equal = false;
    auto text = [](T value) { return std::to_string(static_cast<long long>(value)); };
    out.what = "at " + position(i, sizes) + ": eager " + text(a[i]) + ", compiled " + text(b[i]);
    if (all.reference != nullptr) out.what += ", by fp64 " + text(all.reference[i]);
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
  return epsilon(b) > epsilon(a) ? b : a;
}

Comparison compare(const at::Tensor& expected, const at::Tensor& came, const Tolerance& tolerance,
                   const Witnesses& witnesses) {
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
  for (const at::Tensor& other : witnesses.disturbed) others.push_back(other.contiguous());
  const at::Tensor reference =
      witnesses.reference.defined() ? witnesses.reference.contiguous() : at::Tensor();
  auto elements = [&]<class T>(T) {
    Elements<T> all{static_cast<const T*>(x), static_cast<const T*>(y)};
    for (size_t k = 0; k < others.size(); ++k) {
      const auto* data = static_cast<const T*>(others[k].const_data_ptr());
      const bool strong = k + passes::kStrongDisturbances >= passes::kDisturbances;
      if (!strong) all.disturbed.push_back(data);
      if (strong || k == 0) all.strongly.push_back(data);
    }
    if (reference.defined()) all.reference = static_cast<const T*>(reference.const_data_ptr());
    return all;
  };
  auto floats = [&](auto zero, int64_t lanes) {
    compare_floats(elements(zero), a.numel() * lanes, lanes, a.sizes(), type, tolerance, out);
  };
  auto integers = [&](auto zero) {
    compare_integers(elements(zero), a.numel(), a.sizes(), tolerance, out);
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
