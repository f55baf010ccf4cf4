#include "passes/split_reduce.h"

#include "ir/builder.h"
#include "passes/rewrite.h"

namespace graft::passes {

using ir::Access;
using ir::Node;
using ir::Op;
using ir::Program;
using ir::Statement;

namespace {

constexpr int64_t kLong = 1 << 16;   ///< reduced points from which splitting pays
constexpr int64_t kFewResults = 32;  ///< parallel points below which it is needed
constexpr int64_t kPart = 8192;      ///< wanted points of a part

/// The largest divisor of n that is at most kPart, if it is a useful part length.
int64_t part_length(int64_t n) {
  for (int64_t d = kPart; d >= kPart / 16; --d)
    if (n % d == 0) return d;
  return 0;
}

/// Emits partial reductions of `s` along its outermost reduced axis, and the reduction of those.
void split(const Statement& original, Program& out) {
  Statement s = original;
  std::vector<Statement> tails;
  size_t outer = 0;
  while (!s.reduction->axes[outer]) ++outer;
  int64_t rest = 1;
  for (size_t a = outer + 1; a < s.axes.size(); ++a)
    if (s.reduction->axes[a]) rest *= s.axes[a];
  int64_t tail = 0;
  if (rest < kPart / 8) {  // the outermost axis alone is the long one: cut it into parts
    int64_t n = s.axes[outer], part = part_length(n);
    if (part == 0) {
      part = std::max<int64_t>(1, kPart / rest);
      tail = n % part;
      if (n < 2 * part) {
        out.items.emplace_back(original);
        return;
      }
      if (tail) {
        Statement last = original;
        take_range(last, outer, n - tail, n);
        tails.push_back(std::move(last));
        take_range(s, outer, 0, n - tail);
      }
    }
    if (part > 1 && s.axes[outer] > part) split_axis(s, outer, part);
  }
  int64_t parts = s.axes[outer];

  // Partial results: [kept axes..., part], of the accumulator's type.
  std::vector<int64_t> sizes;
  for (size_t a = 0; a < original.axes.size(); ++a)
    if (!original.reduction->axes[a]) sizes.push_back(original.axes[a]);
  std::vector<int64_t> kept = sizes;
  sizes.push_back(parts + (tail ? 1 : 0));
  std::vector<int64_t> strides = ir::contiguous_strides(sizes);
  int storage = static_cast<int>(out.storages.size());
  c10::ScalarType type = s.reduction->type;
  out.storages.push_back({ir::Role::Temporary,
                          ir::numel(sizes) * static_cast<int64_t>(c10::elementSize(type)), -1,
                          false});

  auto partial = [&](Statement p, bool is_tail) {
    Access store;
    store.storage = storage;
    store.dtype = type;
    store.offset = is_tail ? parts : 0;
    store.strides.assign(p.axes.size(), 0);
    if (!is_tail) p.reduction->axes[outer] = false;
    size_t next = 0;
    for (size_t a = 0; a < p.axes.size(); ++a) {
      if (!is_tail && a == outer)
        store.strides[a] = strides.back();
      else if (!p.reduction->axes[a])
        store.strides[a] = strides[next++];
    }
    p.store = std::move(store);
    p.value = p.expr.add({Op::Reduced, type, {-1, -1, -1}, 0});
    compact(p);
    out.items.emplace_back(std::move(p));
  };
  partial(s, false);
  for (Statement& t : tails) partial(std::move(t), true);

  // The last step keeps the epilogue: the nodes after Reduced, over the kept axes.
  Statement last = original;
  last.axes = kept;
  last.axes.push_back(sizes.back());
  auto shrink = [&](Access& access) {
    std::vector<int64_t> now;
    for (size_t a = 0; a < original.axes.size(); ++a)
      if (!original.reduction->axes[a]) now.push_back(access.strides[a]);
    now.push_back(0);
    access.strides = std::move(now);
  };
  shrink(last.store);
  for (Access& load : last.loads) shrink(load);
  std::vector<int64_t> place(original.axes.size(), 0);
  for (size_t a = 0, next = 0; a < original.axes.size(); ++a)
    if (!original.reduction->axes[a]) place[a] = static_cast<int64_t>(next++);
  for (Node& node : last.expr.nodes)
    if (node.op == Op::Axis) node.payload = place[static_cast<size_t>(node.payload)];
  Access load;
  load.storage = storage;
  load.dtype = type;
  load.strides = strides;
  last.loads.push_back(load);
  last.reduction->axes.assign(last.axes.size(), false);
  last.reduction->axes.back() = true;
  last.reduction->input =
      last.expr.add({Op::Load, type, {-1, -1, -1}, static_cast<int64_t>(last.loads.size() - 1)});
  compact(last);
  out.items.emplace_back(std::move(last));
}

}  // namespace

bool splittable(const Statement& s) {
  if (!s.reduction || s.reduction->scan || ir::finds_place(s.reduction->op)) return false;
  int64_t reduced = 1, kept = 1;
  for (size_t a = 0; a < s.axes.size(); ++a) (s.reduction->axes[a] ? reduced : kept) *= s.axes[a];
  return reduced >= kLong && kept < kFewResults;
}

Program split_reductions(Program program) {
  Program out;
  out.storages = program.storages;
  out.signature = std::move(program.signature);
  for (ir::Item& item : program.items) {
    auto* s = std::get_if<Statement>(&item);
    if (s && splittable(*s))
      split(*s, out);
    else
      out.items.push_back(std::move(item));
  }
  return out;
}

}  // namespace graft::passes
