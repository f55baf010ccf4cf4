#include <ATen/Dispatch.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/kthvalue.h>
#include <ATen/ops/median.h>
#include <ATen/ops/nanmedian.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "runtime/process/library.h"
#include "sorting/introsort.h"
#include "sorting/keys.h"
#include "sorting/rows.h"
#include "tensor/sorting.h"

namespace graft {

namespace {

using at::Tensor;
using Found = std::tuple<Tensor, Tensor>;

/// Elements that are worth a thread.
constexpr int64_t kSelectGrain = 8192;

enum class Selection : uint8_t { KthValue, Median, NanMedian };
struct How {
  Selection selection;
  size_t k = 0;         ///< of KthValue, from 0
  bool places = false;  ///< are they asked for?
  /// Is the row all there is? ATen's medians of everything leave equal elements in another order.
  bool is_all = false;
};

/// Selects an element of each row; rows of one length, one after the other.
template <class T>
class RankFinder {
 public:
  using Key = decltype(key_of(T{}));

  RankFinder(size_t count, How how) : how_(how), row_(count), keys_(count), spare_(count) {}

  T* row() { return row_.data(); }
  /// Finds that of row() (sorting/rows.h).
  void run() {
    std::transform(row_.begin(), row_.end(), keys_.begin(), [](T x) { return key_of(x); });
    const size_t nans = count_nans();
    if (how_.selection == Selection::Median && nans > 0) {
      place_ = find(kNan, 0);
      if (how_.is_all) row_[place_] = std::numeric_limits<T>::quiet_NaN();
      return;
    }
    const size_t counted = row_.size() - (how_.selection == Selection::NanMedian ? nans : 0);
    const size_t rank = how_.selection == Selection::KthValue ? how_.k
                        : counted == 0                        ? 0
                                                              : (counted - 1) / 2;
    const bool at_once = how_.places && how_.selection == Selection::KthValue && ties_.are_likely();
    if (at_once) {
      as_eager(rank);
    } else {
      scratch_ = keys_;
      place_ = find(select(rank), 0);
    }
    const Key key = keys_[place_];
    const bool tied = shows(key) && find(key, find(key, 0) + 1) < row_.size();
    ties_.met(tied);
    if (!tied || at_once) return;
    if (how_.selection == Selection::KthValue || how_.is_all || counted == 0)
      as_eager(rank);
    else
      take_in_order(key, rank);
  }
  int64_t place(size_t /*k*/) const { return static_cast<int64_t>(place_); }
  T element(size_t /*k*/) const { return row_[place_]; }

 private:
  static constexpr Key kNan = static_cast<Key>(~Key{0});
  static constexpr size_t kLeaf = 16;

  size_t count_nans() const {
    if constexpr (std::is_integral_v<T>) return 0;
    return static_cast<size_t>(std::count(keys_.begin(), keys_.end(), kNan));
  }
  size_t find(Key key, size_t from) const {
    return static_cast<size_t>(
        std::find(keys_.begin() + static_cast<ptrdiff_t>(from), keys_.end(), key) - keys_.begin());
  }
  /// Does it show which of the elements with this key is taken? Of values alone that of zeros and
  /// NaN, which have several forms.
  bool shows(Key key) const {
    if (how_.places) return true;
    if constexpr (std::is_integral_v<T>) return false;
    return key == key_of(T(0)) || key == kNan;
  }

  static Key middle(Key a, Key b, Key c) {
    return std::max(std::min(a, b), std::min(std::max(a, b), c));
  }
  /// The middle one of three, each the middle one of three.
  static Key pivot_of(const Key* keys, size_t count) {
    std::array<Key, 3> of_three;
    for (size_t i = 0; i < 3; ++i) {
      const Key* const from = keys + i * (count - 1) / 8 * 3;
      of_three[i] = middle(from[0], from[(count - 1) / 8], from[(count - 1) / 8 * 2]);
    }
    return middle(of_three[0], of_three[1], of_three[2]);
  }
  /// Writes what is less than `limit` to the front of `to`, the rest to its end. Gives how many are
  /// less. (Of two comparisons GCC would make a branch.)
  static size_t split(const Key* from, size_t count, Key limit, Key* to) {
    size_t less = 0;
    for (size_t k = 0; k < count; ++k) {
      to[less] = to[count - 1 - k + less] = from[k];
      less += from[k] < limit ? 1 : 0;
    }
    return less;
  }
  /// The key that `rank` of scratch_ come before.
  Key select(size_t rank) {
    Key *from = scratch_.data(), *to = spare_.data();
    size_t count = scratch_.size();
    for (int rounds = introsort::most_partitions(static_cast<ptrdiff_t>(count));
         count > kLeaf && rounds > 0; --rounds) {
      const Key pivot = pivot_of(from, count);
      size_t less = split(from, count, pivot, to);
      if (less == 0) {  // it is the least
        if (pivot == kNan) return pivot;
        less = split(from, count, static_cast<Key>(pivot + 1), to);
        if (rank < less) return pivot;
      }
      const bool is_less = rank < less;
      from = is_less ? to : to + less;
      count = is_less ? less : count - less;
      rank -= is_less ? 0 : less;
      to = to == spare_.data() ? scratch_.data() : spare_.data();
    }
    std::nth_element(from, from + rank, from + count);
    return from[rank];
  }

  /// Of equal elements the first comes first.
  void take_in_order(Key key, size_t rank) {
    const auto less = static_cast<size_t>(
        std::count_if(keys_.begin(), keys_.end(), [&](Key other) { return other < key; }));
    for (size_t left = rank - less; left > 0; --left) place_ = find(key, place_ + 1);
  }
  /// With the swaps of at::kthvalue or std::nth_element.
  void as_eager(size_t rank) {
    entries_.resize(row_.size());
    if (how_.selection == Selection::KthValue) {
      make_entries(row_, /*descending=*/false, entries_);
      quick_select(rank);
    } else {
      make_nth(row_, /*descending=*/false, entries_, static_cast<ptrdiff_t>(rank));
    }
    place_ = entries_[rank].place;
  }
  void quick_select(size_t rank) {
    const auto swap = [&](size_t a, size_t b) { std::swap(entries_[a], entries_[b]); };
    const auto order = [&](size_t a, size_t b) {
      if (entries_[a].key > entries_[b].key) swap(a, b);
    };
    size_t left = 0, right = entries_.size() - 1;
    while (right > left + 1) {
      swap(left + (right - left) / 2, left + 1);
      order(left + 1, right), order(left, right), order(left + 1, left);
      const Key pivot = entries_[left].key;
      size_t i = left + 1, j = right;
      for (;;) {
        do ++i;
        while (pivot > entries_[i].key);
        do --j;
        while (entries_[j].key > pivot);
        if (j < i) break;
        swap(i, j);
      }
      swap(left, j);
      if (j <= rank) left = i;
      if (j >= rank) {
        if (j == 0) return;
        right = j - 1;
      }
    }
    if (right == left + 1) order(left, right);
  }

  const How how_;
  std::vector<T> row_;
  std::vector<Key> keys_, scratch_, spare_;
  std::vector<Entry<Key>> entries_;
  Ties ties_;
  size_t place_ = 0;
};

/// Do at::kthvalue and at::median take equal elements as these do? They do in libtorch 2.11;
/// another one's are called as they are.
bool knows_eagers_element() {
  static const bool knows = [] {
    for (int64_t count : {40, 1500})
      for (int64_t k : {1, 7, 40}) {
        const Tensor row = tied_row(count);
        const How rank{Selection::KthValue, static_cast<size_t>(k - 1), true},
            median{Selection::Median, 0, true}, all{Selection::Median, 0, false, true},
            numbers{Selection::NanMedian, 0, false, true};
        if (!finds(RankFinder<float>(static_cast<size_t>(count), rank), row,
                   std::get<1>(at::kthvalue(row, k, 0, /*keepdim=*/true))) ||
            !finds(RankFinder<float>(static_cast<size_t>(count), median), row,
                   std::get<1>(at::median(row, 0, /*keepdim=*/true))))
          return false;
        // Which of zeros of both signs is taken.
        const Tensor zeros = at::where(row > k, 0.F, -0.F);
        for (const auto& [how, eager] :
             {std::pair(all, at::median(zeros)), std::pair(numbers, at::nanmedian(zeros))}) {
          RankFinder<float> finder(static_cast<size_t>(count), how);
          std::copy_n(zeros.const_data_ptr<float>(), count, finder.row());
          finder.run();
          if (!are_same(finder.element(0), *eager.const_data_ptr<float>())) return false;
        }
      }
    return true;
  }();
  return knows;
}

bool is_atens(const Tensor& self, int64_t count) {
  return self.dim() == 0 || self.numel() == 0 || self.scalar_type() == at::kBool ||
         count > std::numeric_limits<uint32_t>::max() || !knows_eagers_element();
}

Found select_in_rows(const Tensor& self, int64_t along, bool keeps, const How& how) {
  auto [values, found] = AT_DISPATCH_ALL_TYPES_AND2(
      at::kHalf, at::kBFloat16, self.scalar_type(), "graft::select", [&] {
        return found_in_rows<scalar_t>(self, along, 1, how.places, kSelectGrain, [&] {
          return RankFinder<scalar_t>(static_cast<size_t>(self.size(along)), how);
        });
      });
  if (keeps) return {values, found};
  return {values.squeeze(along), found.squeeze(along)};
}

template <bool places>
Found kth_value(const Tensor& self, int64_t k, int64_t dim, bool keepdim) {
  const int64_t along = at::maybe_wrap_dim(dim, self.dim()),
                count = self.dim() == 0 ? 1 : self.size(along);
  if (is_atens(self, count) || k < 1 || k > count) return at::kthvalue(self, k, dim, keepdim);
  return select_in_rows(self, along, keepdim,
                        {Selection::KthValue, static_cast<size_t>(k - 1), places});
}

template <Selection which, bool places>
Found median(const Tensor& self, int64_t dim, bool keepdim) {
  const int64_t along = at::maybe_wrap_dim(dim, self.dim()),
                count = self.dim() == 0 ? 1 : self.size(along);
  if (is_atens(self, count))
    return which == Selection::Median ? at::median(self, dim, keepdim)
                                      : at::nanmedian(self, dim, keepdim);
  return select_in_rows(self, along, keepdim, {which, 0, places});
}

template <Selection which>
Tensor median_of_all(const Tensor& self) {
  if (is_atens(self, self.numel()))
    return which == Selection::Median ? at::median(self) : at::nanmedian(self);
  // Eager's kernel walks over a clone's memory, in which elements lie as they do in `self`.
  const Tensor copy = self.clone(), row = copy.as_strided({copy.numel()}, {1});
  return std::get<0>(select_in_rows(row, 0, /*keeps=*/false, {which, 0, false, true}));
}

}  // namespace

}  // namespace graft

TORCH_LIBRARY_FRAGMENT(graft, library) {
  const auto add = [&](std::string_view name, const char* arguments, auto function) {
    graft::add_operator(library, name, arguments, function);
  };
  const auto by_dim = [](std::string_view name) { return std::string(name) + ".dim"; };
  constexpr const char* kRank =
      "(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)";
  constexpr const char* kAlong =
      "(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)";
  constexpr const char* kAll = "(Tensor self) -> Tensor";
  add(graft::kRanks, kRank, graft::kth_value<true>);
  add(graft::kRankValues, kRank, graft::kth_value<false>);
  add(by_dim(graft::kMedians), kAlong, graft::median<graft::Selection::Median, true>);
  add(by_dim(graft::kMedianValues), kAlong, graft::median<graft::Selection::Median, false>);
  add(by_dim(graft::kNanMedians), kAlong, graft::median<graft::Selection::NanMedian, true>);
  add(by_dim(graft::kNanMedianValues), kAlong, graft::median<graft::Selection::NanMedian, false>);
  add(graft::kMedians, kAll, graft::median_of_all<graft::Selection::Median>);
  add(graft::kNanMedians, kAll, graft::median_of_all<graft::Selection::NanMedian>);
}
