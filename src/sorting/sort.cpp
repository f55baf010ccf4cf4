#include "tensor/sorting.h"

#include <ATen/Dispatch.h>
#include <ATen/TensorIterator.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/sort.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/process/library.h"
#include "sorting/introsort.h"
#include "sorting/keys.h"
#include "sorting/rows.h"

namespace graft {

namespace {

using at::Tensor;
using Sorted = std::tuple<Tensor, Tensor>;

/// Elements that a comparing sort is faster for than counting digits, at most.
template <class Key>
constexpr size_t kFew = sizeof(Key) == 4 ? 32 : 96;
/// Bits of a digit for so many elements: as many counters must be read as they have values.
int digit_bits(size_t count) {
  return count < 256 ? 6 : count < 8192 ? 8 : 11;
}
/// Elements that are worth a thread.
constexpr int64_t kSortGrain = 8192;

/// By one digit after the other, from the lowest on: each pass keeps the order of equal ones.
template <class Key>
void sort_by_digits(std::vector<Entry<Key>>& entries, std::vector<Entry<Key>>& spare, int bits) {
  const int digits = (8 * static_cast<int>(sizeof(Key)) + bits - 1) / bits;
  const size_t values = size_t{1} << bits;
  std::vector<uint32_t> counts(static_cast<size_t>(digits) * values, 0);
  const auto digit = [&](Key key, int d) {
    return static_cast<size_t>(key >> (d * bits)) & (values - 1);
  };
  for (const Entry<Key>& e : entries)
    for (int d = 0; d < digits; ++d) ++counts[static_cast<size_t>(d) * values + digit(e.key, d)];
  for (int d = 0; d < digits; ++d) {
    uint32_t* const starts = &counts[static_cast<size_t>(d) * values];
    if (starts[digit(entries[0].key, d)] == entries.size()) continue;  // all have the same
    uint32_t sum = 0;
    for (size_t k = 0; k < values; ++k) sum += std::exchange(starts[k], sum);
    for (const Entry<Key>& e : entries) spare[starts[digit(e.key, d)]++] = e;
    entries.swap(spare);
  }
}

struct Way {
  bool stable, descending, places;
};

/// Rows of one length, one after the other.
template <class T>
class RowSorter {
 public:
  using Key = decltype(key_of(T{}));

  RowSorter(size_t count, Way way) : way_(way), row_(count), entries_(count), spare_(count) {}

  T* row() { return row_.data(); }
  /// Sorts row() (sorting/rows.h); element(k) and place(k) are of the one that comes k-th.
  void run() {
    fill();
    const bool is_eagers = !way_.stable && way_.places, few_values = is_eagers && has_few_values(),
               as_eager = few_values || (is_eagers && (ties_.are_likely() || is_surely_tied()));
    if (few_values)
      std::sort(entries_.begin(), entries_.end(), ByKey());
    else if (as_eager)
      sort_as_std(entries_);
    else if (row_.size() <= kFew<Key>)
      std::sort(entries_.begin(), entries_.end());
    else
      sort_by_digits(entries_, spare_, digit_bits(row_.size()));
    if (way_.stable) return;
    const bool tied = has_ties();
    ties_.met(tied);
    if (!tied || as_eager) return;
    fill();
    sort_as_std(entries_);
  }
  int64_t place(size_t k) const { return entries_[k].place; }
  T element(size_t k) const { return row_[entries_[k].place]; }

 private:
  /// Of so many random numbers in fp32 two are equal as a rule.
  bool is_surely_tied() const {
    return !std::is_integral_v<T> && sizeof(T) <= sizeof(float) && row_.size() >= 4096;
  }
  /// Is one of a few of its elements there again and again? std::sort's branches are foreseen then.
  bool has_few_values() const {
    constexpr size_t kAsked = 32, kAgain = 4;
    if (entries_.size() < kAsked) return false;
    std::array<Key, kAsked> asked;
    for (size_t k = 0; k < kAsked; ++k) asked[k] = entries_[k * entries_.size() / kAsked].key;
    std::sort(asked.begin(), asked.end());
    for (size_t k = kAgain; k < kAsked; ++k)
      if (asked[k] == asked[k - kAgain]) return true;
    return false;
  }
  void fill() { make_entries(row_, way_.descending, entries_); }
  /// Are there equal elements whose order shows?
  bool has_ties() const {
    for (size_t k = 1; k < entries_.size(); ++k)
      if (entries_[k - 1].key == entries_[k].key &&
          (way_.places || !are_same(element(k - 1), element(k))))
        return true;
    return false;
  }
  const Way way_;
  Ties ties_;
  std::vector<T> row_;
  std::vector<Entry<Key>> entries_, spare_;
};

/// Does at::sort leave equal elements where std::sort does? It does in libtorch 2.11; another
/// one's sort is called as it is.
bool knows_eagers_order() {
  static const bool knows = [] {
    // (Of many values, and of few: has_few_values.)
    for (const Tensor& row : {tied_row(50), tied_row(3000), tied_row(3000).fmod(3)})
      for (bool descending : {false, true}) {
        const Tensor places = std::get<1>(at::sort(row, /*stable=*/false, 0, descending));
        const Way way{false, descending, true};
        if (!finds(RowSorter<float>(static_cast<size_t>(row.numel()), way), row, places))
          return false;
      }
    return true;
  }();
  return knows;
}

/// Few integers, or very many, ATen sorts fast; these by digits, with all threads, so that equal
/// ones keep their order.
bool is_fast_in_aten(const Tensor& self, int64_t count, bool descending) {
  if (!at::isIntegralType(self.scalar_type(), /*includeBool=*/true)) return false;
  return count <= static_cast<int64_t>(kFew<uint32_t>) ||
         (self.dim() == 1 && !descending && count >= at::internal::GRAIN_SIZE);
}

/// NaN is larger than all numbers. Equal elements keep their order, unless not `stable`: then they
/// come in the order that at::sort gives them.
Sorted sorted(const Tensor& self, bool stable, int64_t dim, bool descending, bool places) {
  const int64_t along = at::maybe_wrap_dim(dim, self.dim()),
                count = self.dim() == 0 ? 1 : self.size(along);
  if (self.dim() == 0 || self.numel() == 0 || self.scalar_type() == at::kBool ||
      count > std::numeric_limits<uint32_t>::max() || is_fast_in_aten(self, count, descending) ||
      (!stable && !knows_eagers_order()))
    return at::sort(self, std::optional<bool>(stable), dim, descending);
  const Way way{stable, descending, places};
  const Tensor from = self.contiguous();
  const auto rows = [&]<class T, class As>(T, As) {
    return found_in_rows<T, As>(from, along, count, places, kSortGrain,
                                [&] { return RowSorter<As>(static_cast<size_t>(count), way); });
  };
  if (self.scalar_type() == at::kLong && are_small(from)) return rows(int64_t{}, int32_t{});
  return AT_DISPATCH_ALL_TYPES_AND2(at::kHalf, at::kBFloat16, self.scalar_type(), "graft::sort",
                                    [&] { return rows(scalar_t{}, scalar_t{}); });
}

template <bool places>
Sorted sort(const Tensor& self, int64_t dim, bool descending) {
  return sorted(self, /*stable=*/false, dim, descending, places);
}
template <bool places>
Sorted sort_stable(const Tensor& self, std::optional<bool> stable, int64_t dim, bool descending) {
  return sorted(self, stable.value_or(false), dim, descending, places);
}

}  // namespace

}  // namespace graft

TORCH_LIBRARY_FRAGMENT(graft, library) {
  const auto add = [&](std::string_view name, auto plain, auto stable) {
    const std::string end = "int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)";
    graft::add_operator(library, name, "(Tensor self, " + end, plain);
    graft::add_operator(library, std::string(name) + ".stable",
                        "(Tensor self, *, bool? stable, " + end, stable);
  };
  add(graft::kSorts, graft::sort<true>, graft::sort_stable<true>);
  add(graft::kSortsValues, graft::sort<false>, graft::sort_stable<false>);
}
