#include "passes/parts.h"

#include <algorithm>

#include "ir/overlap.h"
#include "passes/rewrite.h"

namespace graft::passes {

using ir::Overlap;
using ir::Relation;
using ir::Statement;

namespace {

constexpr size_t kMostParts = 4;

/// How the statement that stores later covers the part.
Overlap covering(const Statement& later, const Statement& part) {
  if (later.reduction || (part.reduction && part.reduction->scan)) return {};
  return relate(later.store, later.axes, part.store, part.axes);
}

}  // namespace

void take_out(const Statement& later, std::vector<Statement>& parts) {
  for (size_t k = 0; k < parts.size();) {
    if (overwrites(later, parts[k])) {
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(k));
      continue;
    }
    const Overlap overlap = covering(later, parts[k]);
    const auto axis = static_cast<size_t>(std::max(overlap.axis, 0));
    if (overlap.relation == Relation::NeedSplit) {
      split_axis(parts[k], axis, overlap.at);
    } else if (overlap.relation == Relation::Partial && parts.size() < kMostParts) {
      Statement rest = parts[k];
      take_range(rest, axis, overlap.at, rest.axes[axis]);
      take_range(parts[k], axis, 0, overlap.at);
      parts.push_back(std::move(rest));
    } else {
      ++k;
    }
  }
}

}  // namespace graft::passes
