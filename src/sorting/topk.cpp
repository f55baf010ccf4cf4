#include <ATen/Dispatch.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/topk.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <optional>
#include <vector>

#include "runtime/process/library.h"
#include "sorting/introsort.h"
#include "sorting/keys.h"
#include "sorting/rows.h"
#include "sorting/scan.h"
#include "tensor/sorting.h"

namespace graft {

namespace {

using at::Tensor;
using Found = std::tuple<Tensor, Tensor>;

/// Of so many elements ATen walks over the row with a heap of the best.
constexpr int64_t kFewest = 64;
bool are_few(int64_t k, int64_t count) {
  return k * kFewest <= count;
}
/// Elements of a row that are looked at together, beside twice as many as are wanted.
constexpr size_t kBlock = kScanned;
/// Of so short rows so few are found one after the other.
constexpr size_t kShort = 32, kPicked = 4;
/// Elements that are worth a thread.
constexpr int64_t kTopGrain = 16384;

bool can_scan() {
  static const bool can = __builtin_cpu_supports("avx2") > 0;
  return can;
}

/// Rows of one length, one after the other.
template <class T>
class TopFinder {
 public:
  using Key = decltype(key_of(T{}));

  TopFinder(size_t count, size_t k, bool largest, bool places)
      : k_(k), largest_(largest), places_(places), row_(count), room_(2 * k + kBlock) {}

  T* row() { return row_.data(); }
  /// Finds those of row() (sorting/rows.h); element(k) and place(k) are of the one that comes k-th.
  void run() {
    best_.clear();
    dropped_.reset();
    if (places_ && ties_.are_likely()) {
      as_eager();
      return ties_.met(has_ties());
    }
    bool is_found = false;
    if constexpr (sizeof(Entry<Key>) == sizeof(uint64_t)) {
      is_found = row_.size() <= kShort && k_ <= kPicked;
      if (is_found) pick();
    }
    if (!is_found) find();
    const bool tied = has_ties();
    ties_.met(tied);
    if (tied) as_eager();
  }
  int64_t place(size_t k) const { return best_[k].place; }
  T element(size_t k) const { return row_[best_[k].place]; }

 private:
  /// Of a short row the least, then the least of those behind it, and so on: no comparison has to
  /// be guessed.
  void pick() {
    static_assert(sizeof(Entry<uint32_t>) == sizeof(uint64_t));
    constexpr uint64_t kNone = ~uint64_t{0};
    std::array<uint64_t, kShort> entries;
    for (size_t k = 0; k < row_.size(); ++k) entries[k] = std::bit_cast<uint64_t>(entry(k));
    std::array<uint64_t, kPicked + 1> picked;
    for (size_t p = 0; p <= k_; ++p) {
      uint64_t least = kNone;
      for (size_t k = 0; k < row_.size(); ++k) {
        const uint64_t taken = p > 0 && entries[k] <= picked[p - 1] ? kNone : 0;
        least = std::min(least, entries[k] | taken);
      }
      picked[p] = least;
      if (p < k_) best_.push_back(std::bit_cast<Entry<Key>>(least));
    }
    // One more than asked for tells whether an equal one was left out.
    if (k_ < row_.size() && std::bit_cast<Entry<Key>>(picked[k_]).key == best_.back().key)
      dropped_ = best_.back().key;
  }
  void find() {
    size_t from = 0;
    while (from < row_.size()) {
      if (best_.size() >= room_ - kBlock) keep_best();
      from = best_.size() < k_ ? take_all(from) : take_better(from);
    }
    keep_best();
    std::sort(best_.begin(), best_.begin() + static_cast<ptrdiff_t>(k_));
  }
  Entry<Key> entry(size_t place) const { return entry_of(row_, place, largest_); }
  size_t take_all(size_t from) {
    const size_t to = std::min(row_.size(), from + room_ - best_.size());
    for (size_t k = from; k < to; ++k) best_.push_back(entry(k));
    return to;
  }
  /// What comes before the last of the best. Of what equals it is only known that there was some:
  /// zeros that are most of a row are looked at once.
  size_t take_better(size_t from) {
    const Key limit = best_[k_ - 1].key;
    if constexpr (std::is_floating_point_v<T>) {
      if (scans_ && row_.size() - from >= kBlock) {
        uint64_t left = may_be_better(row_.data() + from, row_[best_[k_ - 1].place], largest_);
        for (; left != 0; left &= left - 1) {
          const auto next = entry(from + static_cast<size_t>(std::countr_zero(left)));
          if (next.key < limit) best_.push_back(next);
          if (next.key == limit) dropped_ = limit;
        }
        return from + kBlock;
      }
    }
    const size_t start = best_.size(), to = std::min(row_.size(), from + kBlock);
    best_.resize(start + kBlock);
    size_t end = start;
    bool equal = false;
    for (size_t k = from; k < to; ++k) {
      best_[end] = entry(k);
      equal |= best_[end].key == limit;
      end += best_[end].key < limit ? 1 : 0;
    }
    if (equal) dropped_ = limit;
    best_.resize(end);
    return to;
  }
  /// Leaves k_, the last of which comes last.
  void keep_best() {
    if (best_.size() <= k_) return;
    const auto last = best_.begin() + static_cast<ptrdiff_t>(k_) - 1;
    std::nth_element(best_.begin(), last, best_.end());
    const Key key = last->key;
    if (std::any_of(last + 1, best_.end(), [&](const Entry<Key>& e) { return e.key == key; }))
      dropped_ = key;
    best_.resize(k_);
  }

  /// Are there equal elements whose order shows?
  bool has_ties() const {
    for (size_t k = 1; k < k_; ++k)
      if (best_[k - 1].key == best_[k].key && shows(best_[k].key)) return true;
    return dropped_ == best_[k_ - 1].key && shows(*dropped_);
  }
  /// Of values alone that of zeros and NaN, which have several forms.
  bool shows(Key key) const {
    if (places_) return true;
    if constexpr (std::is_integral_v<T>) return false;
    const Key forward = largest_ ? static_cast<Key>(~key) : key;
    return forward == key_of(T(0)) || forward == static_cast<Key>(~Key{0});
  }
  /// As at::topk does.
  void as_eager() {
    if (are_few(static_cast<int64_t>(k_), static_cast<int64_t>(row_.size())))
      return walk_with_heap();
    best_.resize(row_.size());
    const auto last = best_.begin() + static_cast<ptrdiff_t>(k_) - 1;
    make_nth(row_, largest_, best_, last - best_.begin());
    std::sort(best_.begin(), last, ByKey());
  }
  /// As at::topk does where few are wanted, which is std::partial_sort: a heap of the best so far,
  /// whose last one makes place for each that comes before it, in the row's order. All others are
  /// passed by at once, equal ones too.
  void walk_with_heap() {
    best_.clear();
    const auto heap = [&](size_t count) { return best_.begin() + static_cast<ptrdiff_t>(count); };
    for (size_t place = 0; place <= k_; ++place) best_.push_back(entry(place));
    std::make_heap(heap(0), heap(k_), ByKey());
    const auto look_at = [&](size_t place) {
      const Entry<Key> next = entry(place);
      if (!ByKey()(next, best_[0])) return;
      best_[k_] = next;
      std::pop_heap(heap(0), heap(k_ + 1), ByKey());
    };
    size_t from = k_;
    if constexpr (std::is_floating_point_v<T>)
      for (; scans_ && row_.size() - from >= kBlock; from += kBlock) {
        const T last = row_[best_[0].place];
        for (uint64_t left = are_beyond(row_.data() + from, last, largest_); left != 0;
             left &= left - 1)
          look_at(from + static_cast<size_t>(std::countr_zero(left)));
      }
    for (; from < row_.size(); ++from) look_at(from);
    std::sort_heap(heap(0), heap(k_), ByKey());
  }

  const size_t k_;
  const bool largest_, places_;
  const bool scans_ = can_scan();
  std::vector<T> row_;
  const size_t room_;
  std::vector<Entry<Key>> best_;
  Ties ties_;
  std::optional<Key> dropped_;  ///< the key of the last one that was kept where one was not
};

/// Does at::topk take equal elements as as_eager() does? It does in libtorch 2.11; another one's is
/// called as it is.
bool knows_eagers_choice() {
  static const bool knows = [] {
    for (int64_t k : {20, 30, 400})
      for (bool largest : {false, true}) {
        const Tensor row = tied_row(1500);
        const Tensor places = std::get<1>(at::topk(row, k, 0, largest, /*sorted=*/true));
        if (!finds(TopFinder<float>(1500, static_cast<size_t>(k), largest, true), row, places))
          return false;
      }
    return true;
  }();
  return knows;
}

/// Numbers of 8 and 16 bits are equal so often that to look for their places twice would cost more;
/// a heap of few is as fast as what looks at one element at a time.
bool is_atens(at::ScalarType type, int64_t count, int64_t k, bool places) {
  if (places && at::elementSize(type) <= 2) return true;
  return are_few(k, count) && !(can_scan() && (type == at::kFloat || type == at::kDouble));
}

template <bool with_places>
Found top(const Tensor& self, int64_t k, int64_t dim, bool largest, bool sorted) {
  const int64_t along = at::maybe_wrap_dim(dim, self.dim()),
                count = self.dim() == 0 ? 1 : self.size(along);
  if (self.dim() == 0 || self.numel() == 0 || k < 1 || k > count || !sorted ||
      self.scalar_type() == at::kBool || count > std::numeric_limits<uint32_t>::max() ||
      is_atens(self.scalar_type(), count, k, with_places) || !knows_eagers_choice())
    return at::topk(self, k, dim, largest, sorted);
  return AT_DISPATCH_ALL_TYPES_AND2(
      at::kHalf, at::kBFloat16, self.scalar_type(), "graft::topk", [&] {
        return found_in_rows<scalar_t>(self, along, k, with_places, kTopGrain, [&] {
          return TopFinder<scalar_t>(static_cast<size_t>(count), static_cast<size_t>(k), largest,
                                     with_places);
        });
      });
}

}  // namespace

}  // namespace graft

TORCH_LIBRARY_FRAGMENT(graft, library) {
  const auto add = [&](std::string_view name, auto function) {
    graft::add_operator(library, name,
                        "(Tensor self, SymInt k, int dim=-1, bool largest=True, "
                        "bool sorted=True) -> (Tensor values, Tensor indices)",
                        function);
  };
  add(graft::kTops, graft::top<true>);
  add(graft::kTopValues, graft::top<false>);
}
