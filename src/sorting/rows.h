// The rows of a tensor along one dimension, each given to something that finds elements in it: a
// *finder* has row(), memory to fill, run(), and then element(k) and place(k) of the one that comes
// k-th.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <tuple>
#include <vector>

namespace graft {

/// What a finder finds first in each row along `dim`, `kept` elements: values, and where asked for
/// places, both contiguous. make() gives a finder, for numbers of type T as `As`, which holds the
/// very same; `grain` elements are worth a thread.
template <class T, class As = T, class Make>
std::tuple<at::Tensor, at::Tensor> found_in_rows(const at::Tensor& self, int64_t dim, int64_t kept,
                                                 bool with_places, int64_t grain,
                                                 const Make& make) {
  std::vector<int64_t> sizes = self.sizes().vec();
  sizes[static_cast<size_t>(dim)] = kept;
  const at::Tensor from = self.contiguous(), values = at::empty(sizes, self.options()),
                   places = at::empty(sizes, self.options().dtype(at::kLong));
  const int64_t count = from.size(dim);
  int64_t inner = 1;
  for (int64_t d = dim + 1; d < from.dim(); ++d) inner *= from.size(d);
  const T* const in = from.const_data_ptr<T>();
  T* const out = values.mutable_data_ptr<T>();
  int64_t* const found = places.mutable_data_ptr<int64_t>();
  const int64_t rows = std::max<int64_t>(1, grain / count);
  at::parallel_for(0, from.numel() / count, rows, [&](int64_t begin, int64_t end) {
    auto finder = make();
    for (int64_t row = begin; row < end; ++row) {
      const int64_t first = row / inner * count * inner + row % inner,
                    to = row / inner * kept * inner + row % inner;
      if (inner == 1)
        std::copy_n(in + first, count, finder.row());
      else
        for (int64_t k = 0; k < count; ++k)
          finder.row()[k] = static_cast<As>(in[first + k * inner]);
      finder.run();
      for (int64_t k = 0; k < kept; ++k)
        out[to + k * inner] = finder.element(static_cast<size_t>(k));
      for (int64_t k = 0; with_places && k < kept; ++k)
        found[to + k * inner] = finder.place(static_cast<size_t>(k));
    }
  });
  return {values, places};
}

/// A row with many equal elements.
inline at::Tensor tied_row(int64_t count) {
  return (at::arange(count) * 7919 % 101 % 13).to(at::kFloat);
}

/// Does it find in the row what an operator of ATen found?
template <class Finder>
bool finds(Finder finder, const at::Tensor& row, const at::Tensor& places) {
  std::copy_n(row.const_data_ptr<float>(), row.numel(), finder.row());
  finder.run();
  for (int64_t k = 0; k < places.numel(); ++k)
    if (places.const_data_ptr<int64_t>()[k] != finder.place(static_cast<size_t>(k))) return false;
  return true;
}

}  // namespace graft
