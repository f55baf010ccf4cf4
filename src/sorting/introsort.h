// std::sort and std::nth_element of libstdc++, as ATen's sorts run them: where equal elements end
// follows from each swap, so that these make the same swaps. What they do not do is to wait for
// each comparison: half of the branches of the original are mispredicted, 57 ns for an element of
// a row of 65,536 in place of 20.
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "sorting/keys.h"

namespace graft {

namespace introsort {

constexpr ptrdiff_t kLeaf = 16;  ///< std::sort leaves ranges of so many to an insertion sort
constexpr size_t kBlock = 64;
/// Elements of one row that are worth a thread.
constexpr ptrdiff_t kRange = 8192;

/// Partitions after which a range is sorted by a heap.
inline int most_partitions(ptrdiff_t count) {
  return 2 * (std::bit_width(static_cast<size_t>(count)) - 1);
}

template <class E>
void move_median_to_first(E* to, E* a, E* b, E* c) {
  const ByKey before;
  E* median;
  if (before(*a, *b))
    median = before(*b, *c) ? b : before(*a, *c) ? c : a;
  else
    median = before(*a, *c) ? a : before(*b, *c) ? c : b;
  std::swap(*to, *median);
}

/// Places, counted from one side, that may have to be swapped: those from `done` to `found` still.
template <class E>
struct Side {
  E* from = nullptr;  ///< where places count from: the first element, or on the right the last
  std::array<uint8_t, 4 * kBlock> places;
  size_t done = 0, found = 0;

  bool is_empty() const { return done == found; }
  template <class IsOne>
  void look(E* start, size_t count, const IsOne& is_one) {
    size_t ones = 0;  // in a register
    for (size_t k = 0; k < count; ++k) {
      places[ones] = static_cast<uint8_t>(k);
      ones += static_cast<size_t>(is_one(k));
    }
    from = start, done = 0, found = ones;
  }
};

/// Brings what comes before `pivot` to the front: the k-th from the left that does not is swapped
/// with the k-th from the right that does not come after it, as long as it lies left of that. Both
/// kinds are there. Returns where the others begin.
template <class E, class Key>
E* partition(E* first, E* last, Key pivot) {
  Side<E> left, right;
  const auto look_left = [&](size_t count) {
    left.look(first, count, [&](size_t k) { return !(first[k].key < pivot); });
  };
  const auto look_right = [&](size_t count) {
    right.look(last - 1, count, [&](size_t k) { return !(pivot < (last - 1 - k)->key); });
  };
  while (last - first >= 2 * static_cast<ptrdiff_t>(kBlock)) {
    if (left.is_empty()) look_left(kBlock), first += kBlock;
    if (right.is_empty()) look_right(kBlock), last -= kBlock;
    const size_t pairs = std::min(left.found - left.done, right.found - right.done);
    for (size_t k = 0; k < pairs; ++k)
      std::swap(left.from[left.places[left.done + k]],
                *(right.from - right.places[right.done + k]));
    left.done += pairs, right.done += pairs;
  }
  // What is left, and what one side has found for which the other had nothing.
  if (!left.is_empty()) first = left.from + left.places[left.done];
  if (!right.is_empty()) last = right.from - right.places[right.done] + 1;
  const auto count = static_cast<size_t>(last - first);
  look_left(count), look_right(count);
  const auto place = [&](size_t k) { return left.from + left.places[k]; };
  const auto partner = [&](size_t k) { return right.from - right.places[k]; };
  const size_t most = std::min(left.found, right.found);
  size_t pairs = 0;
  for (; pairs < most && place(pairs) < partner(pairs); ++pairs)
    std::swap(*place(pairs), *partner(pairs));
  E* const next = pairs < left.found ? place(pairs) : last;
  return pairs == 0 ? next : std::min(next, partner(pairs - 1));
}

/// By the median of three.
template <class E>
E* cut(E* first, E* last) {
  move_median_to_first(first, first + 1, first + (last - first) / 2, last - 1);
  return partition(first + 1, last, first->key);
}

/// Sorts up to kLeaf elements; equal ones keep their order, as std::sort's last step leaves them.
template <class E>
void sort_leaf(E* first, E* last) {
  const auto count = static_cast<size_t>(last - first);
  std::array<E, kLeaf> given;
  std::array<uint32_t, kLeaf> ranks{};
  for (size_t j = 0; j < count; ++j) {
    given[j] = first[j];
    uint32_t rank = 0;
    for (size_t i = 0; i < j; ++i) {
      const uint32_t is_before = given[j].key < given[i].key ? 1 : 0;
      ranks[i] += is_before;
      rank += 1 - is_before;
    }
    ranks[j] = rank;
  }
  for (size_t k = 0; k < count; ++k) first[ranks[k]] = given[k];
}

template <class E>
struct Range {
  E *first, *last;
  int partitions;  ///< left
};

/// `aside`: takes the right part of each partition.
template <class E, class Aside>
void sort_left(Range<E> range, ptrdiff_t leaf, const Aside& aside) {
  while (range.last - range.first > leaf) {
    if (range.partitions-- == 0)
      return std::partial_sort(range.first, range.last, range.last, ByKey());
    E* const at = cut(range.first, range.last);
    aside(Range<E>{at, range.last, range.partitions});
    range.last = at;
  }
  if (leaf == kLeaf)
    sort_leaf(range.first, range.last);
  else
    aside(range);
}

template <class E>
void sort(const Range<E>& range) {
  sort_left(range, kLeaf, [](const Range<E>& right) { sort(right); });
}

/// Into ranges of about `most` elements and less, to be sorted each.
template <class E>
void split(const Range<E>& range, ptrdiff_t most, std::vector<Range<E>>& ranges) {
  if (range.last - range.first <= most) return ranges.push_back(range);
  sort_left(range, most, [&](const Range<E>& right) { split(right, most, ranges); });
}

}  // namespace introsort

/// As std::sort(entries.begin(), entries.end(), ByKey()). A long row outside of other parallel work
/// is sorted by all threads.
template <class Key>
void sort_as_std(std::vector<Entry<Key>>& entries) {
  using Range = introsort::Range<Entry<Key>>;
  const auto count = static_cast<ptrdiff_t>(entries.size());
  if (count < 2) return;
  const Range all{entries.data(), entries.data() + count, introsort::most_partitions(count)};
  const int threads = at::in_parallel_region() ? 1 : at::get_num_threads();
  if (threads == 1 || count < 2 * introsort::kRange) return introsort::sort(all);
  constexpr ptrdiff_t kRangesForEach = 8;
  std::vector<Range> ranges;
  introsort::split(all, std::max(introsort::kRange / 2, count / (kRangesForEach * threads)),
                   ranges);
  at::parallel_for(0, static_cast<int64_t>(ranges.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) introsort::sort(ranges[static_cast<size_t>(k)]);
  });
}

/// As std::nth_element(first, first + nth, last, ByKey()); false where that gives up partitioning:
/// the order is lost then.
template <class Key>
bool nth_as_std(std::vector<Entry<Key>>& entries, ptrdiff_t nth) {
  constexpr ptrdiff_t kLeaf = 3;
  Entry<Key>*first = entries.data(), *last = first + entries.size(), *const at = first + nth;
  int partitions = introsort::most_partitions(last - first);
  while (last - first > kLeaf) {
    if (partitions-- == 0) return false;
    Entry<Key>* const border = introsort::cut(first, last);
    (border <= at ? first : last) = border;
  }
  introsort::sort_leaf(first, last);
  return true;
}

/// The row's entries as std::nth_element leaves them.
template <class T, class Key>
void make_nth(const std::vector<T>& row, bool descending, std::vector<Entry<Key>>& entries,
              ptrdiff_t nth) {
  make_entries(row, descending, entries);
  if (nth_as_std(entries, nth)) return;
  make_entries(row, descending, entries);
  std::nth_element(entries.begin(), entries.begin() + nth, entries.end(), ByKey());
}

}  // namespace graft
