// Matrix products that are loops: few terms each, or one row or column. All others are calls of
// ATen's routines.
#include <algorithm>
#include <utility>

#include "ops/products.h"
#include "ops/reduce.h"
#include "ops/schema.h"

namespace graft::ops {

namespace {

using c10::ScalarType;
using ir::ReduceOp;
using ir::StatementBuilder;
using ir::Value;
using ir::View;
using record::OperatorRecord;

/// Terms of a sum that are written out.
constexpr int64_t kMostTerms = 8;
/// Terms that are written out of a product of so few numbers, for which a call takes longer than
/// they do.
constexpr int64_t kMostTermsOfSmall = 32, kSmallProduct = 16384;
/// So many are interleaved, or written out, as whole vectors; more are gathered one by one.
constexpr int64_t kFewTerms = 4;
/// So few sums are as fast, and more exact, as reductions.
constexpr int64_t kFewSums = 16;
/// So few rows or columns are done by the time the other operand has come from memory, or nearly:
/// routines, which are made for more, are slower by a factor of 1.3 to 5. The latter of fp32, where
/// sums have 32 registers.
constexpr int64_t kFewRows = 8, kFewWideRows = 12;
/// … of a batch, whose products may be attention's, in kernels with what stands around them.
constexpr int64_t kFewRowsOfBatch = 4;
/// Below so many products in all, ATen's bmm adds one after the other, each rounded.
constexpr int64_t kPlainProducts = 400;

/// out[b, m, n] = beta * added[b, m, n] + alpha * sum over k of left[b, m, k] * right[b, k, n]
struct Product {
  View left, right, out;
  View added = {};  ///< storage -1: nothing
  double alpha = 1, beta = 1;
  bool batched = false, is_vector = false;  ///< by a routine for batches, or of a vector

  int64_t rows() const { return left.sizes[1]; }
  int64_t terms() const { return left.sizes[2]; }
  int64_t columns() const { return right.sizes[2]; }
};

/// Over [b, m, n, k], of which the view has the dimensions that are not 0 in `strides`.
View over(const View& view, const std::vector<int64_t>& sizes, std::vector<int64_t> strides) {
  return {view.storage, view.dtype, view.byte_offset, sizes, std::move(strides)};
}

Value scaled(Value v, double factor) {
  return factor == 1 ? v : v * factor;
}

/// alpha * sum + beta * added
Value finished(StatementBuilder& s, const Product& p, Value sum) {
  sum = scaled(sum, p.alpha);
  if (p.added.storage < 0 || p.beta == 0) return sum;
  return sum + scaled(s.load(p.added).to(sum.type()), p.beta);
}

Value add_products(Value sum, const std::vector<std::pair<Value, Value>>& factors, bool fused) {
  for (const auto& [left, right] : factors)
    sum = fused ? ir::fma(left, right, sum) : sum + left * right;
  return sum;
}

bool is_turned(const View& view) {
  return view.strides[2] != 1 && view.strides[1] == 1;
}

ir::FewTerms few_terms(const Product& p) {
  return {.dtype = p.out.dtype,
          .batched = p.batched,
          .adds = p.added.storage >= 0 && p.beta != 0,
          .rows = p.rows(),
          .terms = p.terms(),
          .columns = p.columns(),
          .left_turned = is_turned(p.left),
          .right_turned = is_turned(p.right)};
}

/// Each sum written out, in the order of its terms; `plain`: as ATen's own loop, else as the
/// routine that is `asked` for them.
void write_out(Context& ctx, const Product& p, bool plain, const ir::FewTerms& asked) {
  const ScalarType compute = opmath(p.out.dtype);
  StatementBuilder s(p.out.sizes);
  std::vector<std::pair<Value, Value>> factors;
  for (int64_t k = 0; k < p.terms(); ++k) {
    const Value left = term_of(s, p.left, 2, k).to(compute);
    factors.emplace_back(left, term_of(s, p.right, 1, k).to(compute));
  }
  const bool asks = !plain && !p.is_vector && !is_reduced(p.out.dtype);
  const ir::TermOrder order =
      asks ? order_of(ctx, asked) : ir::TermOrder{.fused = ctx.settings.target.fma};
  if (order.from_added && p.alpha == 1 && p.beta == 1) {
    const Value added = s.load(p.added).to(compute);
    ctx.emit(s.store(p.out, add_products(added, factors, order.fused)));
  } else {
    ctx.emit(s.store(p.out, finished(s, p, sum_of_products(s, factors, plain, order))));
  }
}

/// Does the larger operand come from further than the first cache?
bool is_large(const Context& ctx, const Product& p) {
  return p.terms() * std::max(p.rows(), p.columns()) *
             static_cast<int64_t>(c10::elementSize(p.out.dtype)) >
         ctx.settings.target.first_cache_bytes;
}

int64_t few_rows(const Context& ctx, const Product& p) {
  // oneDNN computes 16-bit products of few rows as fast.
  const bool by_library = is_reduced(p.out.dtype) && ctx.settings.target.one_dnn(p.out.dtype);
  if (!is_large(ctx, p) || by_library) return 1;
  const bool single = p.out.dtype == ScalarType::Float;
  if (p.batched) return single ? kFewRowsOfBatch : 1;
  const bool wide = single && ctx.settings.target.avx512();
  return wide ? kFewWideRows : kFewRows;
}

bool is_held(const Context& ctx, const Product& p) {
  return ctx.settings.holds && ctx.settings.holds(ctx.record) && !p.batched &&
         p.rows() >= ir::kFewestHeldRows && p.columns() >= ir::kFewestProductColumns &&
         p.alpha == 1 && (p.added.storage < 0 || p.beta == 1) &&
         ctx.program.storages[static_cast<size_t>(p.right.storage)].role == ir::Role::Captured;
}

/// As one sum over the terms.
void reduce(Context& ctx, const Product& p) {
  std::vector<int64_t> sizes = p.out.sizes;
  sizes.push_back(p.terms());
  const auto &l = p.left.strides, &r = p.right.strides;
  StatementBuilder s(sizes);
  // Many add up in fp32, in levels (ir/facts.h). There the product of two 16-bit numbers is exact.
  const ScalarType sums = p.out.dtype == ScalarType::Double || ctx.are_exact(ir::numel(p.out.sizes))
                              ? ScalarType::Double
                              : ScalarType::Float,
                   compute = is_reduced(p.out.dtype) ? ScalarType::Float : sums;
  const Value product = s.load(over(p.left, sizes, {l[0], l[1], 0, l[2]})).to(compute) *
                        s.load(over(p.right, sizes, {r[0], 0, r[2], r[1]})).to(compute);
  const Value sum = s.reduce(ReduceOp::Sum, product, {false, false, false, true}, sums);
  View out = with_rank(p.out, 0, 1);
  if (p.added.storage < 0) {
    ctx.emit(s.store(out, scaled(sum, p.alpha)));
    return;
  }
  // What is added lies apart from the sum's axes: a statement of its own reads it.
  const View made = ctx.temporary(p.out.sizes, sums);
  ctx.emit(s.store(with_rank(made, 0, 1), sum));
  StatementBuilder last(p.out.sizes);
  ctx.emit(last.store(p.out, finished(last, p, last.load(made))));
}

/// A statement for each row, or column, of which there are few: they share what they load of the
/// other operand, and what is computed of it.
void reduce_apart(Context& ctx, const Product& p) {
  const size_t along = p.rows() <= p.columns() ? 1 : 2;
  for (int64_t k = 0; k < p.out.sizes[along]; ++k) {
    Product one = p;
    const auto pick = [&](View& view) {
      const size_t missing = 3 - view.sizes.size();  // of what is added, which is broadcast
      if (view.storage < 0 || along < missing || view.sizes[along - missing] == 1) return;
      view.byte_offset +=
          k * view.strides[along - missing] * static_cast<int64_t>(c10::elementSize(view.dtype));
      view.sizes[along - missing] = 1;
    };
    pick(along == 1 ? one.left : one.right), pick(one.out), pick(one.added);
    reduce(ctx, one);
  }
}

/// Rows as axes of their own where the result is looked at so at once, as that of a matmul of
/// [B, S, K] and [K, N] is: what reads it then walks in the same axes.
void split_rows(const Context& ctx, Product& p) {
  constexpr size_t kLookAhead = 3;
  if (p.batched || p.is_vector || (p.added.storage >= 0 && p.added.sizes.size() > 1)) return;
  const auto record = static_cast<size_t>(ctx.record);
  const int made = ctx.trace.ops[record].outputs.at(0).tensors.at(0);
  for (size_t at = record + 1; at < std::min(ctx.trace.ops.size(), record + 1 + kLookAhead); ++at) {
    const OperatorRecord& op = ctx.trace.ops[at];
    const std::string_view name = base_name(op);
    if ((name != "aten::view" && name != "aten::_unsafe_view") || op.inputs[0].tensors[0] != made)
      continue;
    const std::vector<int64_t>& sizes = ctx.output(op).sizes;
    if (sizes.size() < 3 || sizes.back() != p.columns()) return;
    const int64_t inner = sizes[sizes.size() - 2];
    if (inner < 2 || p.rows() % inner != 0) return;
    for (View* view : {&p.left, &p.out}) {
      view->sizes = {view->sizes[1] / inner, inner, view->sizes[2]};
      view->strides = {view->strides[1] * inner, view->strides[1], view->strides[2]};
    }
    p.right.sizes[0] = p.left.sizes[0], p.right.strides[0] = 0;
    return;
  }
}

Fate lower(Context& ctx, Product p, bool plain) {
  for (const View* view : {&p.left, &p.right})
    if (view->storage < 0 || view->dtype != p.out.dtype)
      return Fate::external("a number, or another dtype");
  if (!is_float(p.out.dtype)) return Fate::external("of whole numbers");
  const int64_t fewest = std::min(p.rows(), p.columns());
  const bool thin = fewest >= 1 && fewest <= few_rows(ctx, p);
  const bool small = !p.batched && !p.is_vector && p.terms() <= kMostTermsOfSmall &&
                     p.rows() * p.columns() * p.terms() <= kSmallProduct;
  const int64_t most = small ? kMostTermsOfSmall : kMostTerms;  // that are written out
  if (p.terms() == 0 || (p.terms() > most && !thin)) return Fate::external("a matmul");
  if (p.terms() > most && is_held(ctx, p)) {
    ctx.held.push_back(ctx.record);
    return Fate::external("a matmul");
  }
  const bool apart =
      p.terms() > kFewTerms && !thin && p.columns() > kFewTerms && p.right.strides[2] != 1;
  if (apart && !small) return Fate::external("a matmul whose columns lie apart");
  for (const View* view : {&p.left, &p.right, &p.added})
    if (view->storage >= 0 && overlaps(*view, {p.out})) return Fate::external(kOverlap);
  if (ir::numel(p.out.sizes) == 0) return Fate::fused();
  const bool in_order = plain && p.terms() <= kMostTerms &&
                        bmm_adds_in_order(ctx, p.rows() * p.columns() * p.terms(), p.out.dtype);
  if (!in_order && !ctx.settings.any_products)
    return Fate::external("a matmul, whose bits are to be eager's");
  const bool few = p.terms() > 1 && ir::numel(p.out.sizes) < kFewSums;
  const bool written_out = in_order || (p.terms() <= most && !few);
  if (!in_order) ctx.approximate(p.out.dtype, written_out ? p.terms() : 0);
  if (written_out) {
    // Asked for as it is.
    const ir::FewTerms asked = few_terms(p);
    if (apart) {
      const View rows = ctx.temporary(p.right.sizes, p.right.dtype);
      ctx.copy(p.right, rows);
      p.right = rows;
    }
    split_rows(ctx, p);
    write_out(ctx, p, in_order, asked);
  } else if (thin) {
    reduce_apart(ctx, p);
  } else {
    reduce(ctx, p);
  }
  return Fate::fused();
}

Fate bmm(Context& ctx, const OperatorRecord& op) {
  return lower(ctx,
               {.left = ctx.tensor(op, 0),
                .right = ctx.tensor(op, 1),
                .out = ctx.output(op),
                .batched = true},
               true);
}
Fate mm(Context& ctx, const OperatorRecord& op) {
  return lower(ctx,
               {with_rank(ctx.tensor(op, 0), 1), with_rank(ctx.tensor(op, 1), 1),
                with_rank(ctx.output(op), 1)},
               false);
}
Fate mv(Context& ctx, const OperatorRecord& op) {
  return lower(ctx,
               {.left = with_rank(ctx.tensor(op, 0), 1),
                .right = with_rank(ctx.tensor(op, 1), 1, 1),
                .out = with_rank(ctx.output(op), 1, 1),
                .is_vector = true},
               false);
}
Fate dot(Context& ctx, const OperatorRecord& op) {
  return lower(ctx,
               {.left = with_rank(ctx.tensor(op, 0), 2),
                .right = with_rank(ctx.tensor(op, 1), 1, 1),
                .out = with_rank(ctx.output(op), 3),
                .is_vector = true},
               false);
}

/// The forms that add a tensor, which is broadcast to the result. `back`: of the right factor.
Fate with_added(Context& ctx, const OperatorRecord& op, size_t front, size_t back = 0) {
  const View added = with_rank(ctx.tensor(op, 0), 0, back),
             out = with_rank(ctx.output(op), front, back);
  if (added.storage < 0 || added.dtype != out.dtype || added.sizes.size() > out.sizes.size())
    return Fate::external("a number, or another dtype");
  const std::optional<c10::Scalar> alpha = number(op, "alpha"), beta = number(op, "beta");
  if (alpha && alpha->toDouble() == 0)
    return Fate::external("alpha is 0: its factors are not read");
  Product p{.left = with_rank(ctx.tensor(op, 1), front),
            .right = with_rank(ctx.tensor(op, 2), front, back),
            .out = out,
            .added = added,
            .alpha = alpha ? alpha->toDouble() : 1,
            .beta = beta ? beta->toDouble() : 1,
            .batched = front == 0,
            .is_vector = back > 0};
  // ATen's addmv of no rows gives as many as what is added has.
  if (p.rows() != out.sizes[1]) return Fate::external("factors without elements");
  return lower(ctx, p, false);
}
Fate addmm(Context& ctx, const OperatorRecord& op) {
  return with_added(ctx, op, 1);
}
Fate addmv(Context& ctx, const OperatorRecord& op) {
  return with_added(ctx, op, 1, 1);
}
Fate baddbmm(Context& ctx, const OperatorRecord& op) {
  return with_added(ctx, op, 0);
}

}  // namespace

Value term_of(StatementBuilder& s, View factor, size_t along, int64_t k) {
  advance(factor, along, k);
  factor.strides[along] = 0;
  factor.sizes = s.statement.axes;
  return s.load(factor);
}

bool bmm_adds_in_order(const Context& ctx, int64_t products, ScalarType dtype) {
  // At any size: there the order is not eager's, whose own changes with the sizes.
  return !ctx.settings.any_size && !is_reduced(dtype) && products < kPlainProducts;
}

ir::TermOrder order_of(const Context& ctx, const ir::FewTerms& product) {
  if (ctx.settings.order_of_terms) return ctx.settings.order_of_terms(product);
  return {.fused = ctx.settings.target.fma};
}

Value sum_of_products(StatementBuilder& s, const std::vector<std::pair<Value, Value>>& factors,
                      bool plain, ir::TermOrder order) {
  const auto& [first, by] = factors.front();
  const Value sum = plain ? s.constant(0, first.type()) + first * by : first * by;
  return add_products(sum, {factors.begin() + 1, factors.end()}, !plain && order.fused);
}

std::vector<Row> product_rows() {
  return {
      {"aten::bmm", bmm,
       "of up to 8 terms (4 where columns lie apart), or of one row or column (in fp32 up to 4 "
       "of a large operand): a sum"},
      {"aten::mm", mm,
       "likewise, but of a large operand up to 8 (in fp32 with AVX-512 12), and of up to 32 terms "
       "and 16,384 products in all"},
      {"aten::mv", mv, "sum over columns"},
      {"aten::dot", dot, "sum of products"},
      {"aten::addmm", addmm, "as mm, and what is added"},
      {"aten::addmv", addmv, "as mv, and what is added"},
      {"aten::baddbmm", baddbmm, "as bmm, and what is added"},
  };
}

}  // namespace graft::ops
