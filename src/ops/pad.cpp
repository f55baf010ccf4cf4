// Copies of planes: borders that repeat what is inside, and channels that become pixels.
#include <algorithm>

#include "ops/fill.h"
#include "ops/reduce.h"
#include "ops/schema.h"

namespace graft::ops {

namespace {

using c10::ScalarType;
using ir::StatementBuilder;
using ir::Value;
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

/// Along each dimension of what is padded; empty where they are unusual.
std::vector<std::vector<Run>> read_runs(const OperatorRecord& op, const View& inside,
                                        bool reflects) {
  const std::vector<int64_t> border = integers(op, "padding");
  const size_t rank = inside.sizes.size();
  std::vector<std::vector<Run>> runs;
  if (border.size() % 2 != 0 || border.size() / 2 > rank) return {};
  for (size_t d = 0; d < rank; ++d) {
    const size_t back = rank - 1 - d;  // the list begins with the last dimension
    const bool padded = back < border.size() / 2;
    runs.push_back(runs_of(inside.sizes[d], padded ? border[2 * back] : 0,
                           padded ? border[2 * back + 1] : 0, reflects));
    if (runs.back().empty()) return {};
  }
  return runs;
}

template <bool reflects>
Fate pad(Context& ctx, const OperatorRecord& op) {
  const View from = ctx.tensor(op, 0), to = ctx.output(op);
  if (from.storage < 0 || from.dtype != to.dtype || to.sizes.size() != from.sizes.size())
    return Fate::external("an unusual input");
  if (overlaps(from, {to})) return Fate::external(kOverlap);
  if (ir::numel(to.sizes) == 0) return Fate::fused();
  const std::vector<std::vector<Run>> runs = read_runs(op, from, reflects);
  if (runs.empty()) return Fate::external("more is left out than there is");
  copy_runs(ctx, from, to, 0, runs);
  return Fate::fused();
}

/// Neighbouring places of what was padded, of which as many copies were made.
struct Copied {
  struct Copy {
    int64_t first = 0, step = 0;  ///< that of the first place, and from one place to the next
    int64_t of(int64_t place) const { return first + place * step; }
  };
  int64_t begin = 0, count = 0;
  std::vector<Copy> copies;  ///< in the padded result's order

  /// Takes in the place behind these, if its copies go on as theirs do.
  bool take(const std::vector<int64_t>& more) {
    if (more.size() != copies.size()) return false;
    for (size_t k = 0; k < more.size(); ++k) {
      if (count == 1) copies[k].step = more[k] - copies[k].first;
      if (copies[k].of(count) != more[k]) return false;
    }
    ++count;
    return true;
  }
};

std::vector<Copied> copied(int64_t extent, const std::vector<Run>& runs) {
  std::vector<std::vector<int64_t>> copies(static_cast<size_t>(extent));
  for (const Run& run : runs)
    for (int64_t k = 0; k < run.count; ++k)
      copies[static_cast<size_t>(run.from + k * run.step)].push_back(run.to + k);
  std::vector<Copied> all;
  for (int64_t at = 0; at < extent; ++at) {
    const std::vector<int64_t>& of = copies[static_cast<size_t>(at)];
    if (!all.empty() && all.back().take(of)) continue;
    Copied& made = all.emplace_back(Copied{at, 1, {}});
    for (int64_t copy : of) made.copies.push_back({copy, 0});
  }
  return all;
}

/// out = the sum of `copies`, which lie as it does along the dimensions before `dim` and as the
/// padded result along the others, in the order in which ATen's loop meets them.
void add_copies(Context& ctx, const std::vector<View>& copies, const View& out, size_t dim,
                const std::vector<std::vector<Copied>>& all) {
  if (dim < out.sizes.size()) {
    for (const Copied& part : all[dim]) {
      std::vector<View> narrowed;
      for (const View& from : copies)
        for (const Copied::Copy& copy : part.copies) {
          View& made = narrowed.emplace_back(from);
          advance(made, dim, copy.first);
          made.strides[dim] *= copy.step;
          made.sizes[dim] = part.count;
        }
      add_copies(ctx, narrowed, narrow(out, dim, part.begin, part.count), dim + 1, all);
    }
    return;
  }
  const ScalarType compute = opmath(out.dtype);
  StatementBuilder s(out.sizes);
  Value sum = s.constant(0, compute);
  for (const View& copy : copies) sum = (sum + s.load(copy).to(compute)).to(out.dtype).to(compute);
  ctx.emit(s.store(out, sum));
}

/// Statements of one operator, and additions in each of them.
constexpr size_t kMostPieces = 27, kMostAdded = 64;

template <bool reflects>
Fate pad_backward(Context& ctx, const OperatorRecord& op) {
  const View gradient = ctx.tensor(op, 0), out = ctx.output(op);
  if (gradient.storage < 0 || gradient.dtype != out.dtype || !is_float(out.dtype) ||
      gradient.sizes.size() != out.sizes.size())
    return Fate::external("an unusual gradient");
  if (overlaps(gradient, {out})) return Fate::external(kOverlap);
  if (ir::numel(out.sizes) == 0) return Fate::fused();
  const std::vector<std::vector<Run>> runs = read_runs(op, out, reflects);
  if (runs.empty()) return Fate::external("more is left out than there is");
  std::vector<std::vector<Copied>> all;
  size_t pieces = 1, added = 1;
  for (size_t d = 0; d < runs.size(); ++d) {
    all.push_back(copied(out.sizes[d], runs[d]));
    pieces *= all.back().size();
    size_t most = 0;
    for (const Copied& part : all.back()) most = std::max(most, part.copies.size());
    added *= most;
  }
  if (pieces > kMostPieces || added > kMostAdded)
    return Fate::external("a border of too many pieces or copies");
  add_copies(ctx, {gradient}, out, 0, all);
  return Fate::fused();
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
                             kRepeats = "copies: of what is inside, and of its border",
                             kAddsUp = "the sum over an element's copies";
  return {
      {"aten::reflection_pad1d", pad<true>, kReflects},
      {"aten::reflection_pad2d", pad<true>, kReflects},
      {"aten::reflection_pad3d", pad<true>, kReflects},
      {"aten::replication_pad1d", pad<false>, kRepeats},
      {"aten::replication_pad2d", pad<false>, kRepeats},
      {"aten::replication_pad3d", pad<false>, kRepeats},
      {"aten::reflection_pad1d_backward", pad_backward<true>, kAddsUp},
      {"aten::reflection_pad2d_backward", pad_backward<true>, kAddsUp},
      {"aten::reflection_pad3d_backward", pad_backward<true>, kAddsUp},
      {"aten::replication_pad1d_backward", pad_backward<false>, kAddsUp},
      {"aten::replication_pad2d_backward", pad_backward<false>, kAddsUp},
      {"aten::replication_pad3d_backward", pad_backward<false>, kAddsUp},
      {"aten::pixel_shuffle", pixel_shuffle, "a copy with other strides"},
      {"aten::pixel_unshuffle", pixel_unshuffle, "a copy with other strides"},
  };
}

}  // namespace graft::ops
