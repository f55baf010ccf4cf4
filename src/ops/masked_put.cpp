// self[mask] = value, where each place under the mask gets the same (rows of) values: no place has
// to be counted.
#include <algorithm>
#include <optional>
#include <vector>

#include "ops/indexing.h"
#include "ops/reduce.h"
#include "ops/schema.h"

namespace graft::ops {

namespace {

using c10::ScalarType;
using ir::View;
using record::OperatorRecord;

/// The only index that the operator has, if it is a mask: `mask` lies over self's dimensions from
/// `first` on.
struct Masked {
  View mask;
  size_t first;
};

std::optional<Masked> read_mask(const Context& ctx, const OperatorRecord& op, const View& self) {
  const std::vector<const record::TensorInfo*> given = given_indices(ctx, op);
  std::optional<Masked> found;
  for (size_t d = 0; d < given.size(); ++d) {
    if (given[d] == nullptr) continue;
    const record::TensorInfo& index = *given[d];
    if (found || index.storage < 0 || index.dtype != ScalarType::Bool || index.sizes.empty())
      return std::nullopt;
    found = Masked{index, d};
  }
  if (!found || found->first + found->mask.sizes.size() > self.sizes.size()) return std::nullopt;
  const auto covered = self.sizes.begin() + static_cast<std::ptrdiff_t>(found->first);
  if (!std::equal(found->mask.sizes.begin(), found->mask.sizes.end(), covered)) return std::nullopt;
  return found;
}

/// `values`, which broadcast to self with the `covered` dimensions as one (how many places there
/// are), so that they broadcast to self; `after`: dimensions behind these. Nothing: each place has
/// its own.
std::optional<View> over_self(View values, size_t covered, size_t after) {
  if (values.sizes.size() <= after) return values;
  const auto places = static_cast<std::ptrdiff_t>(values.sizes.size() - after - 1);
  if (values.sizes[static_cast<size_t>(places)] != 1) return std::nullopt;
  values.sizes.insert(values.sizes.begin() + places, covered - 1, 1);
  values.strides.insert(values.strides.begin() + places, covered - 1, 0);
  return values;
}

}  // namespace

std::optional<Fate> masked_put(Context& ctx, const OperatorRecord& op) {
  const View self = ctx.tensor(op, 0), out = ctx.output(op);
  if (self.storage < 0 || op.inputs.size() < 3) return std::nullopt;
  const std::optional<Masked> masked = read_mask(ctx, op, self);
  if (!masked) return std::nullopt;
  if (boolean(op, "accumulate", false)) return Fate::external("a mask, and values to add");
  const record::TensorInfo& given = ctx.tensor(op, 2);
  const size_t rank = self.sizes.size(), covered = masked->mask.sizes.size(),
               after = rank - masked->first - covered;
  std::optional<View> values;
  if (!given.constant) {
    if (given.storage < 0) return Fate::external("values without memory");
    // Eager refuses those that do not fit.
    if (given.dtype != self.dtype) return Fate::external("values of another dtype");
    values = over_self(without_front(given, rank - covered + 1), covered, after);
    if (!values) return Fate::external("a mask, and a value for each place");
  }
  if (overlaps(masked->mask, {out}) || (values && overlaps(given, {out})) ||
      (self != out && overlaps(self, {out})))
    return Fate::external(kOverlap);
  if (ir::numel(self.sizes) == 0) return Fate::external("nothing to store to");
  ir::StatementBuilder s(self.sizes);
  const ir::Value value = values ? s.load(*values) : s.scalar(*given.constant, out.dtype);
  ctx.emit(
      s.store(out, ir::select(s.load(with_rank(masked->mask, 0, after)), value, s.load(self))));
  return Fate::fused();
}

}  // namespace graft::ops
