#include "ops/windows.h"

#include <algorithm>

#include "ops/schema.h"

namespace graft::ops {

using c10::ScalarType;
using ir::StatementBuilder;
using ir::Value;
using ir::View;
using record::OperatorRecord;

std::vector<Windows::Run> Windows::runs() const {
  std::vector<Run> made;
  for (int64_t at = 0; at < out; ++at) {
    int64_t first = at * step - padding;
    const int64_t end = std::min(first + (size - 1) * apart + 1, in),
                  padded = std::min(first + size, in + padding) - first;
    while (first < 0) first += apart;
    const int64_t elements = std::max<int64_t>((end - first + apart - 1) / apart, 0);
    if (!made.empty()) {
      Run& run = made.back();
      if (run.elements == elements && run.padded == padded &&
          first == run.first + run.count * step) {
        ++run.count;
        continue;
      }
    }
    made.push_back({at, 1, first, elements, padded});
  }
  return made;
}

namespace {

/// Of the k-th dimension; a list of one number holds for all.
int64_t setting(const std::vector<int64_t>& list, size_t k, int64_t otherwise) {
  return list.empty() ? otherwise : list[std::min(k, list.size() - 1)];
}

}  // namespace

std::vector<Windows> read_windows(const OperatorRecord& op, const View& in, const View& out,
                                  size_t dimensions) {
  const std::vector<int64_t> size = integers(op, "kernel_size"), step = integers(op, "stride"),
                             padding = integers(op, "padding"), apart = integers(op, "dilation");
  std::vector<Windows> all;
  for (size_t k = 0; k < dimensions; ++k) {
    const size_t d = in.sizes.size() - dimensions + k;
    Windows w;
    w.in = in.sizes[d], w.out = out.sizes[d];
    w.size = setting(size, k, 1), w.step = setting(step, k, w.size);
    w.padding = setting(padding, k, 0), w.apart = setting(apart, k, 1);
    all.push_back(w);
  }
  return all;
}

bool make_equal(std::vector<Windows>& windows) {
  for (Windows& w : windows) {
    if (w.out == 0 || w.in % w.out != 0) return false;
    w.size = w.step = w.in / w.out;
  }
  return true;
}

View with_border(Context& ctx, const View& in, const std::vector<int64_t>& sizes,
                 const std::vector<int64_t>& before, double value) {
  const View made = ctx.temporary(sizes, in.dtype);
  ctx.fill(made, value);
  View inside = made;
  inside.sizes = in.sizes;
  const size_t others = sizes.size() - before.size();
  for (size_t k = 0; k < before.size(); ++k) advance(inside, others + k, before[k]);
  ctx.copy(in, inside);
  return made;
}

Value window_elements(StatementBuilder& s, const Windows& w, int axis, bool padding) {
  auto number = [&](int64_t value) { return s.integer(value, ScalarType::Long); };
  const Value first = s.axis(axis) * number(w.step) - number(w.padding),
              end = ir::min(first + number(w.size), number(w.in + w.padding));
  return padding ? end - first : ir::min(end, number(w.in)) - ir::max(first, number(0));
}

}  // namespace graft::ops
