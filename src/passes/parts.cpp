#include "passes/parts.h"

#include <algorithm>

#include "ir/overlap.h"
#include "passes/rewrite.h"

namespace graft::passes {

using ir::Overlap;
using ir::Relation;
using ir::Statement;

namespace {

constexpr size_t kMostParts = 7;  ///< the sides of a box of three dimensions, and its inside

}  // namespace

void take_out(const Statement& later, std::vector<Statement>& parts) {
  if (later.reduction && !later.reduction->scan) return;
  for (size_t k = 0; k < parts.size();) {
    Statement& part = parts[k];
    const Overlap overlap = relate(later.store, later.axes, part.store, part.axes);
    const auto axis = static_cast<size_t>(std::max(overlap.axis, 0));
    if (overlap.relation == Relation::Covered) {
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(k));
    } else if (later.reduction || (part.reduction && part.reduction->scan)) {
      ++k;  // a scan goes as a whole, or stays
    } else if (overlap.relation == Relation::NeedSplit) {
      split_axis(part, axis, overlap.at);
    } else if (overlap.relation == Relation::Partial && parts.size() < kMostParts) {
      Statement rest = part;
      take_range(rest, axis, overlap.at, rest.axes[axis]);
      take_range(part, axis, 0, overlap.at);
      parts.push_back(std::move(rest));
    } else {
      ++k;
    }
  }
}

}  // namespace graft::passes
