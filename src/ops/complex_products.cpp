// Products of complex matrices of few terms, as of gates and rotations: sums written out, for the
// real parts and then for the imaginary ones. All others are calls of ATen's routines.
#include "ops/complex.h"
#include "ops/products.h"
#include "ops/reduce.h"
#include "ops/schema.h"

namespace graft::ops {

namespace {

using c10::ScalarType;
using ir::StatementBuilder;
using ir::Value;
using ir::View;
using record::OperatorRecord;
using record::TensorInfo;

/// Terms of a sum; of matrices that are small, and no batch, some more.
constexpr int64_t kMostComplexTerms = 4, kMostOfSmall = 16, kSmall = 4096;

/// [batch, rows, columns] of the real or the imaginary parts.
struct Factor {
  View real, imaginary;
  bool conjugated;

  explicit Factor(const TensorInfo& tensor)
      : real(with_rank(part(tensor, 0), 3 - tensor.sizes.size())),
        imaginary(with_rank(part(tensor, 1), 3 - tensor.sizes.size())),
        conjugated(tensor.conjugated) {}
};

/// Term `k` of all sums, along dimension `along` of the factor.
std::pair<Value, Value> complex_term(StatementBuilder& s, const Factor& factor, size_t along,
                                     int64_t k) {
  const Value imaginary = term_of(s, factor.imaginary, along, k);
  return {term_of(s, factor.real, along, k), factor.conjugated ? -imaginary : imaginary};
}

}  // namespace

std::optional<Fate> lower_complex_product(Context& ctx, const OperatorRecord& op) {
  if (base_name(op) != "aten::mm" && base_name(op) != "aten::bmm") return std::nullopt;
  const TensorInfo &left = ctx.tensor(op, 0), &right = ctx.tensor(op, 1), &out = ctx.output(op);
  const ScalarType type = c10::toRealValueType(out.dtype);
  for (const TensorInfo* tensor : {&left, &right})
    if (tensor->storage < 0 || tensor->dtype != out.dtype)
      return Fate::external("a number, or another dtype");
  if (!op.mutated.empty()) return Fate::external("into given memory");
  if (!ctx.settings.target.loops(type))
    return Fate::external(std::string("dtype ") + c10::toString(out.dtype));
  const int64_t terms = left.sizes.back(), rows = out.sizes[out.sizes.size() - 2],
                columns = out.sizes.back();
  const bool small = out.sizes.size() == 2 && rows * columns * terms <= kSmall;
  if (terms == 0 || terms > (small ? kMostOfSmall : kMostComplexTerms))
    return Fate::external("a matmul");
  if (!ctx.settings.any_products) return Fate::external("a matmul, whose bits are to be eager's");
  if (ir::numel(out.sizes) == 0) return Fate::fused();
  ctx.approximate(type, 2 * terms);
  const Factor a(left), b(right), to(out);
  const auto sum = [&](const View& view, bool real) {
    StatementBuilder s(view.sizes);
    std::vector<std::pair<Value, Value>> factors;
    for (int64_t k = 0; k < terms; ++k) {
      const auto [x, ix] = complex_term(s, a, 2, k);
      const auto [y, iy] = complex_term(s, b, 1, k);
      factors.emplace_back(x, real ? y : iy);
      factors.emplace_back(real ? -ix : ix, real ? iy : y);
    }
    const ir::TermOrder order{.fused = ctx.settings.target.fma};
    ctx.emit(s.store(view, sum_of_products(s, factors, /*plain=*/false, order)));
  };
  sum(to.real, true), sum(to.imaginary, false);
  return Fate::fused();
}

}  // namespace graft::ops
