#include "runtime/key/key.h"

#include <algorithm>
#include <array>

#include "runtime/key/range.h"

namespace graft::runtime {

namespace {

bool is_empty(const Range& range) {
  return range.low == range.high;
}

using Ranges = std::span<const Range>;

bool any_overlap(Ranges ranges) {
  for (size_t i = 1; i < ranges.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (ranges[i].low < ranges[j].high && ranges[j].low < ranges[i].high) return true;
  return false;
}

using Order = std::vector<uint32_t>;

/// By address. The order of the last call of this thread comes first: an optimizer's parameters do
/// not move.
const Order& sorted(Ranges ranges) {
  thread_local Order order;
  auto before = [&](uint32_t a, uint32_t b) { return ranges[a].low < ranges[b].low; };
  if (order.size() != ranges.size()) {
    order.resize(ranges.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  }
  if (!std::is_sorted(order.begin(), order.end(), before))
    std::sort(order.begin(), order.end(), before);
  return order;
}

void write_groups(Words& words, std::span<const at::Tensor* const> tensors, Ranges ranges,
                  const Order& order) {
  size_t count = tensors.size();
  words.push(1);
  uint64_t* out = words.room(2 * count);
  words.end_at(out + 2 * count);
  for (size_t begin = 0; begin < count;) {
    // A group: ranges that touch, in a chain.
    uintptr_t high = ranges[order[begin]].high, base = ranges[order[begin]].data;
    uint32_t leader = order[begin];
    size_t end = begin + 1;
    for (; end < count && ranges[order[end]].low < high; ++end) {
      high = std::max(high, ranges[order[end]].high);
      base = std::min(base, ranges[order[end]].data);
      leader = std::min(leader, order[end]);
    }
    for (size_t k = begin; k < end; ++k) {
      uint32_t i = order[k];
      uint64_t twin = i;
      for (size_t m = begin; m < end && end - begin <= 64; ++m)
        if (tensors[order[m]]->is_same(*tensors[i])) twin = std::min<uint64_t>(twin, order[m]);
      out[2 * i] = leader | twin << 32;
      out[2 * i + 1] = end - begin == 1 ? 0 : ranges[i].data - base;
    }
    begin = end;
  }
}

}  // namespace

void append_overlaps(Words& words, std::span<const at::Tensor* const> tensors) {
  constexpr size_t kFew = 8;
  std::array<Range, kFew> few;
  std::vector<Range> many(tensors.size() <= kFew ? 0 : tensors.size());
  Range* filled = many.empty() ? few.data() : many.data();
  for (size_t i = 0; i < tensors.size(); ++i) filled[i] = range_of(*tensors[i]);
  Ranges ranges(filled, tensors.size());
  if (ranges.size() <= kFew) {
    if (!any_overlap(ranges)) return words.push(0);
    return write_groups(words, tensors, ranges, sorted(ranges));
  }
  const Order& order = sorted(ranges);
  uintptr_t high = 0;
  bool overlap = false;
  for (uint32_t i : order) {
    overlap = overlap || (ranges[i].low < high && !is_empty(ranges[i]));
    high = std::max(high, ranges[i].high);
  }
  if (!overlap) return words.push(0);
  write_groups(words, tensors, ranges, order);
}

}  // namespace graft::runtime
