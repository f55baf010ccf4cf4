#include <algorithm>
#include <cstdlib>
#include <map>

#include "ir/builder.h"
#include "ir/overlap.h"

namespace graft::ir {

namespace {

/// Do their bounding spans intersect?
bool spans_meet(const View& a, const View& b) {
  if (a.storage != b.storage || a.storage < 0) return false;
  auto [a0, a1] = byte_span(a);
  auto [b0, b1] = byte_span(b);
  return a0 < a1 && b0 < b1 && a0 < b1 && b0 < a1;
}

/// A multiple of `stride` bytes, between low and high times.
struct Multiple {
  int64_t stride, low, high;
};

/// Is there a sum of one multiple each from `next` on that lies within [low, high]? They come
/// with falling strides; reach[k] bounds what the multiples from k on can add up to. True when the
/// search grows long.
bool reaches(const std::vector<Multiple>& multiples,
             const std::vector<std::pair<int64_t, int64_t>>& reach, size_t next, int64_t low,
             int64_t high, int& budget) {
  if (low > reach[next].second || high < reach[next].first) return false;
  if (next == multiples.size() || --budget < 0) return true;
  const Multiple& multiple = multiples[next];
  // Multiples m with low <= m * stride + rest <= high for some rest within reach[next + 1].
  auto [least, most] = reach[next + 1];
  auto floor_div = [](int64_t a, int64_t b) { return a / b - (a % b < 0); };
  int64_t first = std::max(multiple.low, -floor_div(most - low, multiple.stride));
  int64_t last = std::min(multiple.high, floor_div(high - least, multiple.stride));
  for (int64_t m = first; m <= last; ++m)
    if (reaches(multiples, reach, next + 1, low - m * multiple.stride, high - m * multiple.stride,
                budget))
      return true;
  return false;
}

}  // namespace

std::pair<int64_t, int64_t> byte_span(const View& view) {
  const auto size = static_cast<int64_t>(c10::elementSize(view.dtype));
  int64_t low = view.byte_offset, high = view.byte_offset + size;
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    if (view.sizes[d] == 0) return {view.byte_offset, view.byte_offset};
    const int64_t reach = (view.sizes[d] - 1) * view.strides[d] * size;
    (reach < 0 ? low : high) += reach;
  }
  return {low, high};
}

bool apart(int64_t gap, int64_t reach, Strides digits) {
  std::sort(digits.begin(), digits.end());
  int64_t between = 0;  // how far the digits below a gap move; the others move beyond `reach`
  for (auto [stride, extent] : digits) {
    if (stride < gap) {
      if (stride <= between) return false;
      between += stride * (extent - 1);
      if (between >= gap) return false;
    } else {
      if (stride <= reach + between) return false;
      reach += stride * (extent - 1);
    }
  }
  return true;
}

bool fill(int64_t gap, int64_t count, Strides digits) {
  std::sort(digits.begin(), digits.end());
  int64_t filled = 1;
  for (auto [stride, extent] : digits) {
    if (stride < 0 || stride > filled * gap) return false;
    filled = std::max(filled, (extent - 1) * (stride / gap) + filled);
  }
  return filled >= count;
}

bool is_non_overlapping(const View& view) {
  int64_t dense = 1;
  size_t inner = view.sizes.size();
  while (inner > 0 && (view.sizes[inner - 1] == 1 || view.strides[inner - 1] == dense))
    dense *= view.sizes[--inner];
  if (inner == 0) return true;  // contiguous
  Strides digits;
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    if (view.sizes[d] == 0) return true;
    if (view.sizes[d] > 1) digits.emplace_back(std::abs(view.strides[d]), view.sizes[d]);
  }
  return apart(/*gap=*/1, /*reach=*/0, digits);
}

bool overlap(const View& a, const View& b) {
  if (!spans_meet(a, b)) return false;
  auto a_size = static_cast<int64_t>(c10::elementSize(a.dtype)),
       b_size = static_cast<int64_t>(c10::elementSize(b.dtype));
  // Bytes of an element of a and one of b meet when (b's address) − (a's address) lies within
  // (−b_size, a_size). Axes with one stride are one multiple: differences of their indices.
  std::map<int64_t, Multiple, std::greater<>> by_stride;
  auto add = [&](const View& view, int64_t size, int64_t sign) {
    for (size_t d = 0; d < view.sizes.size(); ++d) {
      int64_t step = sign * view.strides[d] * size, count = view.sizes[d] - 1;
      if (step == 0 || count == 0) continue;
      Multiple& multiple =
          by_stride.try_emplace(std::abs(step), Multiple{std::abs(step), 0, 0}).first->second;
      (step > 0 ? multiple.high : multiple.low) += step > 0 ? count : -count;
    }
  };
  add(b, b_size, 1);
  add(a, a_size, -1);
  std::vector<Multiple> multiples;
  for (const auto& entry : by_stride) multiples.push_back(entry.second);
  std::vector<std::pair<int64_t, int64_t>> reach(multiples.size() + 1, {0, 0});
  for (size_t k = multiples.size(); k-- > 0;)
    reach[k] = {reach[k + 1].first + multiples[k].low * multiples[k].stride,
                reach[k + 1].second + multiples[k].high * multiples[k].stride};
  int64_t distance = b.byte_offset - a.byte_offset;
  int budget = 4096;
  return reaches(multiples, reach, 0, -b_size + 1 - distance, a_size - 1 - distance, budget);
}

bool clash(const View& out, const View& in) {
  if (!overlap(out, in)) return false;
  return out.dtype != in.dtype || out.byte_offset != in.byte_offset ||
         in.sizes.size() > out.sizes.size() ||
         access_of(out, out.sizes).strides != access_of(in, out.sizes).strides;
}

}  // namespace graft::ir
