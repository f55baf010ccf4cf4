// self[mask] = value, where each place under the mask gets the same (rows of) values: no place has
// to be counted.
#include <algorithm>
#include <optional>

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

std::optional<Masked> read_mask(Context& ctx, const OperatorRecord& op, const View& self) {
  const record::TensorIds& given = op.inputs[1].tensors;
  std::optional<Masked> found;
  for (size_t d = 0; d < given.size(); ++d) {
    if (given[d] < 0) continue;
    const record::TensorInfo& index = ctx.trace.tensors[static_cast<size_t>(given[d])];
    if (index.storage < 0 && !index.constant) continue;  // all of that dimension
    if (found || index.storage < 0 || index.dtype != ScalarType::Bool || index.sizes.empty())
      return std::nullopt;
    found = Masked{index, d};
  }
  if (!found || found->first + found->mask.sizes.size() > self.sizes.size()) return std::nullopt;
  const auto covered = self.sizes.begin() + static_cast<std::ptrdiff_t>(found->first);
  if (!std::equal(found->mask.sizes.begin(), found->mask.sizes.end(), covered)) return std::nullopt;
  return found;
}

/// `values`, which broadcast to self with the masked dimensions as one (how many places there are),
/// over all of self; nothing: each place has its own.
std::optional<View> over_self(View values, const View& self, const Masked& masked) {
  const size_t covered = masked.mask.sizes.size(), end = masked.first + covered;
  View over = values;
  over.sizes = self.sizes;
  over.strides.assign(self.sizes.size(), 0);
  const size_t rank = values.sizes.size(), rank_after = self.sizes.size() - end;
  for (size_t k = 0; k < rank; ++k) {  // from the last dimension on
    const int64_t size = values.sizes[rank - 1 - k], stride = values.strides[rank - 1 - k];
    if (size == 1) continue;
    if (k == rank_after) return std::nullopt;
    const size_t back = k < rank_after ? k : k - 1 + covered;
    if (back >= self.sizes.size()) return std::nullopt;
    const size_t d = self.sizes.size() - 1 - back;
    if (self.sizes[d] != size) return std::nullopt;
    over.strides[d] = stride;
  }
  return over;
}

}  // namespace

std::optional<Fate> masked_put(Context& ctx, const OperatorRecord& op) {
  const View self = ctx.tensor(op, 0), out = ctx.output(op);
  if (self.storage < 0 || op.inputs.size() < 3) return std::nullopt;
  const std::optional<Masked> masked = read_mask(ctx, op, self);
  if (!masked) return std::nullopt;
  if (boolean(op, "accumulate", false)) return Fate::external("a mask, and values to add");
  const record::TensorInfo& given = ctx.tensor(op, 2);
  View values = given;
  if (!given.constant) {
    if (given.storage < 0) return Fate::external("values without memory");
    // Eager refuses those that do not fit.
    if (given.dtype != self.dtype) return Fate::external("values of another dtype");
    const std::optional<View> over = over_self(given, self, *masked);
    if (!over) return Fate::external("a mask, and a value for each place");
    values = *over;
  }
  View mask = masked->mask;  // over all dimensions of self
  mask.sizes = self.sizes;
  mask.strides.assign(self.sizes.size(), 0);
  std::copy(masked->mask.strides.begin(), masked->mask.strides.end(),
            mask.strides.begin() + static_cast<std::ptrdiff_t>(masked->first));
  if (overlaps(mask, {out}) || (!given.constant && overlaps(given, {out})) ||
      (self != out && overlaps(self, {out})))
    return Fate::external(kOverlap);
  if (ir::numel(self.sizes) == 0) return Fate::external("nothing to store to");
  ir::StatementBuilder s(self.sizes);
  const ir::Value value =
      given.constant ? s.scalar(*given.constant, out.dtype) : s.load(values).to(out.dtype);
  ctx.emit(s.store(out, ir::select(s.load(mask), value, s.load(self))));
  return Fate::fused();
}

}  // namespace graft::ops
