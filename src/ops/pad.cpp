// Copies of planes: borders that repeat what is inside, and channels that become pixels.
#include <algorithm>

#include "ops/fill.h"
#include "ops/reduce.h"
#include "ops/schema.h"

namespace graft::ops {

namespace {

using ir::View;
using record::OperatorRecord;

/// Neighbours that are stored one by one, so that whole vectors of them are shuffled.
constexpr int64_t kMostNeighbours = 4;

/// A run of places of the result along one dimension, and where they come from.
struct Run {
  int64_t to = 0, count = 0, from = 0, step = 1;
};

/// `before` and `after` may be negative: then that much is left out. Empty where more is left out
/// on one side than there is.
std::vector<Run> runs_of(int64_t extent, int64_t before, int64_t after, bool reflects) {
  const int64_t left = std::max<int64_t>(before, 0), right = std::max<int64_t>(after, 0),
                first = left - before, inside = extent - first - (right - after);
  if (inside < 0) return {};
  std::vector<Run> runs;
  auto add = [&](Run run) {
    if (run.count > 0) runs.push_back(run);
  };
  add(reflects ? Run{0, left, before, -1} : Run{0, left, 0, 0});
  add({left, inside, first, 1});
  add(reflects ? Run{left + inside, right, extent - 2, -1}
               : Run{left + inside, right, extent - 1, 0});
  return runs;
}

/// One copy for each combination of runs along the padded dimensions.
void copy_runs(Context& ctx, View from, View to, size_t dim,
               const std::vector<std::vector<Run>>& runs) {
  if (dim == to.sizes.size()) return ctx.copy(from, to);
  for (const Run& run : runs[dim]) {
    View part = from, place = to;
    advance(part, dim, run.from), advance(place, dim, run.to);
    part.strides[dim] *= run.step;
    part.sizes[dim] = place.sizes[dim] = run.count;
    copy_runs(ctx, std::move(part), std::move(place), dim + 1, runs);
  }
}

Fate pad(Context& ctx, const OperatorRecord& op, bool reflects) {
  const View from = ctx.tensor(op, 0), to = ctx.output(op);
  const std::vector<int64_t> border = integers(op, "padding");
  const size_t rank = from.sizes.size();
  if (from.storage < 0 || from.dtype != to.dtype || to.sizes.size() != rank ||
      border.size() % 2 != 0 || border.size() / 2 > rank)
    return Fate::external("an unusual input");
  if (overlaps(from, {to})) return Fate::external(kOverlap);
  if (ir::numel(to.sizes) == 0) return Fate::fused();
  std::vector<std::vector<Run>> runs;
  for (size_t d = 0; d < rank; ++d) {
    const size_t back = rank - 1 - d;  // the list begins with the last dimension
    const bool padded = back < border.size() / 2;
    runs.push_back(runs_of(from.sizes[d], padded ? border[2 * back] : 0,
                           padded ? border[2 * back + 1] : 0, reflects));
    if (runs.back().empty()) return Fate::external("more is left out than there is");
  }
  copy_runs(ctx, from, to, 0, runs);
  return Fate::fused();
}

Fate reflect(Context& ctx, const OperatorRecord& op) {
  return pad(ctx, op, true);
}
Fate replicate(Context& ctx, const OperatorRecord& op) {
  return pad(ctx, op, false);
}

/// The last three dimensions of `coarse`, (C r r, H, W), and of `fine`, (C, H r, W r), as (C, H, i,
/// W, j): element [c r r + i r + j, h, w] of one is [c, h r + i, w r + j] of the other.
struct Pixels {
  View coarse, fine;
};

Pixels pixels(const View& coarse, const View& fine, int64_t r) {
  const size_t d = coarse.sizes.size() - 3;
  auto with = [&](const View& view, const std::vector<int64_t>& strides) {
    View made = view;
    made.sizes.resize(d), made.strides.resize(d);
    for (int64_t size : {fine.sizes[d], coarse.sizes[d + 1], r, coarse.sizes[d + 2], r})
      made.sizes.push_back(size);
    made.strides.insert(made.strides.end(), strides.begin(), strides.end());
    return made;
  };
  const int64_t *c = coarse.strides.data() + d, *f = fine.strides.data() + d;
  return {with(coarse, {c[0] * r * r, c[1], c[0] * r, c[2], c[0]}),
          with(fine, {f[0], f[1] * r, f[1], f[2] * r, f[2]})};
}

Fate shuffle(Context& ctx, const OperatorRecord& op, const char* argument, bool refines) {
  const View from = ctx.tensor(op, 0), to = ctx.output(op);
  const int64_t r = integer(op, argument, 1);
  if (from.storage < 0 || from.dtype != to.dtype || from.sizes.size() != to.sizes.size() ||
      from.sizes.size() < 3)
    return Fate::external("an unusual input");
  if (overlaps(from, {to})) return Fate::external(kOverlap);
  if (ir::numel(to.sizes) == 0) return Fate::fused();
  const Pixels all = refines ? pixels(from, to, r) : pixels(to, from, r);
  View source = refines ? all.coarse : all.fine, target = refines ? all.fine : all.coarse;
  if (r > kMostNeighbours) {
    ctx.copy(source, target);
    return Fate::fused();
  }
  const size_t neighbours = source.sizes.size() - 1;
  source.sizes[neighbours] = target.sizes[neighbours] = 1;
  for (int64_t j = 0; j < r; ++j) {
    ctx.copy(source, target);
    advance(source, neighbours, 1), advance(target, neighbours, 1);
  }
  return Fate::fused();
}

Fate pixel_shuffle(Context& ctx, const OperatorRecord& op) {
  return shuffle(ctx, op, "upscale_factor", true);
}
Fate pixel_unshuffle(Context& ctx, const OperatorRecord& op) {
  return shuffle(ctx, op, "downscale_factor", false);
}

}  // namespace

std::vector<Row> pad_rows() {
  constexpr std::string_view kReflects =
                                 "copies: of what is inside, and of it turned at the border",
                             kRepeats = "copies: of what is inside, and of its border";
  return {
      {"aten::reflection_pad1d", reflect, kReflects},
      {"aten::reflection_pad2d", reflect, kReflects},
      {"aten::reflection_pad3d", reflect, kReflects},
      {"aten::replication_pad1d", replicate, kRepeats},
      {"aten::replication_pad2d", replicate, kRepeats},
      {"aten::replication_pad3d", replicate, kRepeats},
      {"aten::pixel_shuffle", pixel_shuffle, "a copy with other strides"},
      {"aten::pixel_unshuffle", pixel_unshuffle, "a copy with other strides"},
  };
}

}  // namespace graft::ops
