// Matrices of a tensor, taken into lanes and given back (linalg/lanes.h).
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <type_traits>
#include <vector>

#include "linalg/lanes.h"

namespace graft::lanes {

/// Those of one vector's lanes: `here` from `first` on.
struct Group {
  size_t first = 0, here = 0;
};

/// One matrix after the other; strides are in elements. T: const where they are only read.
template <class T>
class Matrices {
 public:
  using Number = std::remove_const_t<T>;

  /// Of a tensor [matrices, rows, columns].
  explicit Matrices(const at::Tensor& t)
      : rows_(static_cast<size_t>(t.size(1))),
        columns_(static_cast<size_t>(t.size(2))),
        step_(t.stride(0)),
        row_(t.stride(1)),
        column_(t.stride(2)) {
    if constexpr (std::is_const_v<T>)
      data_ = t.const_data_ptr<Number>();
    else
      data_ = t.mutable_data_ptr<Number>();
    const auto rows = static_cast<ptrdiff_t>(rows_), columns = static_cast<ptrdiff_t>(columns_);
    const bool by_rows = column_ == 1 && row_ == columns, by_columns = row_ == 1 && column_ == rows;
    if ((!by_rows && !by_columns) || rows_ * columns_ < kCount<Number> || step_ < 0) return;
    places_.resize(rows_ * columns_);
    for (size_t c = 0; c < columns_; ++c)
      for (size_t r = 0; r < rows_; ++r)
        places_[by_columns ? c * rows_ + r : r * columns_ + c] = c * rows_ + r;
  }

  size_t rows() const { return rows_; }
  size_t columns() const { return columns_; }

  /// Lanes for which there is no matrix hold the last one.
  void take(Group group, Number* lanes) const {
    if (!places_.empty() && group.here == kCount<Number>)
      return lanes::take(at(group.first), static_cast<size_t>(step_), places_.size(),
                         places_.data(), lanes);
    for (size_t lane = 0; lane < kCount<Number>; ++lane)
      each(group.first + std::min(lane, group.here - 1),
           [&](size_t place, const T& number) { lanes[place * kCount<Number> + lane] = number; });
  }
  void give(const Number* lanes, Group group) const {
    if (!places_.empty() && group.here == kCount<Number>)
      return lanes::give(lanes, places_.data(), places_.size(), static_cast<size_t>(step_),
                         at(group.first));
    for (size_t lane = 0; lane < group.here; ++lane)
      each(group.first + lane,
           [&](size_t place, T& number) { number = lanes[place * kCount<Number> + lane]; });
  }

 private:
  T* at(size_t matrix) const { return data_ + static_cast<ptrdiff_t>(matrix) * step_; }
  /// call(place in the lanes, number)
  template <class Call>
  void each(size_t matrix, const Call& call) const {
    T* column = at(matrix);
    for (size_t c = 0, place = 0; c < columns_; ++c, column += column_) {
      T* number = column;
      for (size_t r = 0; r < rows_; ++r, ++place, number += row_) call(place, *number);
    }
  }

  T* data_ = nullptr;
  size_t rows_, columns_;
  ptrdiff_t step_, row_, column_;
  std::vector<size_t> places_;  ///< of the numbers in memory's order, where they lie together
};

/// Memory for the numbers of all lanes.
template <class T>
class Numbers {
 public:
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;
  explicit Numbers(size_t count) : memory_((count + 1) * kCount<T>) {
    constexpr size_t kBytes = 32;
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    first_ = memory_.data() + (kBytes - address % kBytes) % kBytes / sizeof(T);
  }
  T* data() { return first_; }

 private:
  std::vector<T> memory_;
  T* first_;
};

/// make() gives what works on groups, one for each thread: of a Group it gives the lanes that ATen
/// has to compute. `operations` of a matrix say how many are worth a thread. Returns the matrices.
template <class T, class Make>
std::vector<int64_t> for_groups(size_t matrices, size_t operations, const Make& make) {
  constexpr size_t kWorth = 32768;
  const size_t count = kCount<T>, groups = (matrices + count - 1) / count,
               grain = 1 + kWorth / (operations * count);
  std::mutex mutex;
  std::vector<int64_t> left;
  at::parallel_for(0, static_cast<int64_t>(groups), static_cast<int64_t>(grain),
                   [&](int64_t begin, int64_t end) {
                     auto work = make();
                     for (auto g = static_cast<size_t>(begin); g < static_cast<size_t>(end); ++g) {
                       const Group group{g * count, std::min(count, matrices - g * count)};
                       const Mask mask = work(group);
                       for (size_t lane = 0; mask != 0 && lane < group.here; ++lane)
                         if ((mask >> lane & 1) != 0) {
                           const std::lock_guard lock(mutex);
                           left.push_back(static_cast<int64_t>(group.first + lane));
                         }
                     }
                   });
  std::sort(left.begin(), left.end());
  return left;
}

}  // namespace graft::lanes
