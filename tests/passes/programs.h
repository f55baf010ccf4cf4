// Programs that the passes are for, small enough to interpret. Arguments hold small whole numbers,
// whose sums are exact in any order.
#pragma once

#include "build.h"

namespace graft::passes {

/// Rotary embedding as eager writes it: by slices and a concatenation.
inline ProgramBuilder rope(const std::vector<int64_t>& sizes = {2, 16, 512, 128}) {
  using ir::Value;
  ProgramBuilder b;
  int64_t width = sizes[3];
  auto q = b.argument(sizes), cos = b.argument({sizes[2], width}),
       sin = b.argument({sizes[2], width});
  auto scaled = b.temporary(q.sizes), half = b.temporary(q.sizes), turned = b.temporary(q.sizes);
  auto negative = b.temporary({sizes[0], sizes[1], sizes[2], width / 2});
  auto out = b.output(q.sizes);
  auto mul = [](Value x, Value y) { return x * y; };
  b.map(scaled, mul, q, cos);
  b.map(negative, [](Value x) { return -x; }, slice(q, 3, width / 2, width));
  b.map(slice(half, 3, 0, width / 2), copy, negative);
  b.map(slice(half, 3, width / 2, width), copy, slice(q, 3, 0, width / 2));
  b.map(turned, mul, half, sin);
  b.map(out, [](Value x, Value y) { return x + y; }, scaled, turned);
  return b;
}

/// In bf16, with a scale of 1 and a sum of squares.
inline ProgramBuilder residual_norm(int64_t rows = 33, int64_t columns = 40) {
  using ir::Value;
  ProgramBuilder b;
  auto x = b.argument({rows, columns}, kBFloat16), r = b.argument({rows, columns}, kBFloat16);
  auto h = b.output(x.sizes, kBFloat16), out = b.output(x.sizes, kBFloat16);
  auto f = b.temporary(x.sizes), square = b.temporary(x.sizes), sum = b.temporary({rows, 1});
  auto again = b.temporary(x.sizes, kBFloat16);
  b.map(
      h, [](Value a, Value c) { return (a.to(kFloat) + c.to(kFloat) * 1.0).to(kBFloat16); }, x, r);
  b.map(f, [](Value a) { return a.to(kFloat); }, h);
  b.map(again, [](Value a) { return a.to(kBFloat16); }, f);
  b.map(square, [](Value a) { return a.to(kFloat) * a.to(kFloat); }, again);
  b.reduce_last(sum, ir::ReduceOp::Sum, square, kDouble);
  b.map(out, [](Value a, Value c) { return (a - c).to(kBFloat16); }, f, sum);
  return b;
}

/// A state that each step makes of the one before, and a stack of all of them at the end.
inline ProgramBuilder stacked_states(int64_t rows = 32, int64_t steps = 12) {
  using ir::Value;
  ProgramBuilder b;
  auto x = b.argument({rows, steps}), out = b.output({rows, steps});
  std::vector<ir::View> states;
  for (int64_t k = 0; k < steps; ++k) {
    states.push_back(b.temporary({rows}));
    auto& h = states.back();
    if (k == 0)
      b.map(h, [](Value v) { return v * 2.0; }, column(x, 0));
    else
      b.map(
          h, [](Value a, Value v) { return ir::max(-a, v) + v; }, states[states.size() - 2],
          column(x, k));
  }
  for (int64_t k = 0; k < steps; ++k) b.map(column(out, k), copy, states[static_cast<size_t>(k)]);
  return b;
}

/// A column, and the rest of the matrix behind it, step by step.
inline ProgramBuilder columns_in_place(int64_t rows = 48, int64_t columns = 20) {
  using ir::Value;
  ProgramBuilder b;
  auto w = b.argument({rows, columns}), u = b.argument({columns, columns}),
       q = b.output({rows, columns});
  for (int64_t k = 0; k < columns - 1; ++k) {
    auto t = b.temporary({rows});
    auto rest = slice(w, 1, k, columns);
    b.map(t, [](Value v) { return ir::min(v, v.like(3)); }, column(w, k));
    b.map(column(q, k), copy, t);
    b.map(
        rest, [](Value v, Value r, Value e) { return ir::max(v - r, e); }, rest,
        slice(slice(u, 0, k, k + 1), 1, k, columns), slice(q, 1, k, k + 1));
  }
  return b;
}

/// Rows less their largest element and over their sum.
inline ProgramBuilder short_rows(int64_t rows = 1000, int64_t columns = 10) {
  using ir::Value;
  ProgramBuilder b;
  auto x = b.argument({rows, columns}), out = b.output({rows, columns});
  auto most = b.temporary({rows, 1}), sum = b.temporary({rows, 1});
  auto less = b.temporary({rows, columns});
  b.reduce_last(most, ir::ReduceOp::Max, x, kFloat);
  b.map(less, [](Value v, Value m) { return v - m; }, x, most);
  b.reduce_last(sum, ir::ReduceOp::Sum, less, kDouble);
  b.map(out, [](Value v, Value s) { return v * s; }, less, sum);
  return b;
}

/// Products of small matrices, and their sums over the first axis.
inline ProgramBuilder small_matrices(int64_t count = 1000, int64_t n = 3) {
  using ir::Value;
  ProgramBuilder b;
  auto x = b.argument({count, n, n}), y = b.argument({count, n, n});
  auto out = b.output({count, n, n}), sums = b.output({count, n, 1});
  ir::StatementBuilder s({count, n, n, n});
  ir::View left = x, right = y, to = out;
  left.sizes = right.sizes = {count, n, n, n};
  left.strides = {n * n, n, 0, 1}, right.strides = {n * n, 0, 1, n};
  to.sizes = {count, n, n, 1}, to.strides = {n * n, n, 1, 1};
  b.program.items.emplace_back(s.store(to, s.reduce(ir::ReduceOp::Sum, s.load(left) * s.load(right),
                                                    {false, false, false, true}, kFloat)));
  ir::View columns = out;
  columns.strides = {n * n, 1, n};
  b.reduce_last(sums, ir::ReduceOp::Sum, columns, kFloat);
  return b;
}

/// A matrix and another one transposed.
inline ProgramBuilder symmetric(int64_t n = 144) {
  using ir::Value;
  ProgramBuilder b;
  auto x = b.argument({n, n}), y = b.argument({n, n}), out = b.output({n, n});
  ir::View turned = x;
  turned.strides = {1, n};
  b.map(out, [](Value v, Value t, Value w) { return (v + t) * w; }, x, turned, y);
  return b;
}

inline ProgramBuilder long_sum() {
  ProgramBuilder b;
  auto x = b.argument({(1 << 16) + 3});
  b.reduce_last(b.output({1}), ir::ReduceOp::Sum, x, kDouble);
  return b;
}

/// A sum of powers of 2, each computed as a number of its own: exact for whole numbers.
inline ProgramBuilder sum_of_powers() {
  ProgramBuilder b;
  const ir::View x = b.argument({64, 100});
  ir::StatementBuilder s(x.sizes);
  const ir::Value power = call(ir::Routine::ScalarExp2, s.load(x)).to(kDouble);
  b.program.items.emplace_back(s.store(
      b.output({64, 1}), s.reduce(ir::ReduceOp::Sum, power, {false, true}, kDouble).to(kFloat)));
  return b;
}

/// Results that do not fit a cache of 1 MiB.
inline ProgramBuilder large_results() {
  using ir::Value;
  ProgramBuilder b;
  auto x = b.argument({512, 512});
  auto y = b.output(x.sizes), z = b.output(x.sizes);
  b.map(y, [](Value v) { return v * v; }, x);
  b.map(z, [](Value v) { return -v; }, x);
  return b;
}

/// A new temporary a b, by a call.
inline ir::View product(ProgramBuilder& b, const ir::View& left, const ir::View& right) {
  const ir::View made = b.temporary({left.sizes[0], right.sizes[1]});
  b.program.storages[static_cast<size_t>(made.storage)].made_by_extern = true;
  const ir::Extern::Slot first{OperandKind::Tensor, {}, {0}}, second{OperandKind::Tensor, {}, {1}};
  b.program.items.emplace_back(
      ir::Extern{{"aten::mm", ""}, {first, second}, {left, right}, {made}, {made.storage}});
  return made;
}

/// Two products of 1 MiB, each of which changes an argument.
inline ProgramBuilder updates() {
  using ir::Value;
  ProgramBuilder b;
  const auto x = b.argument({512, 512});
  const std::vector<ir::View> products = {product(b, x, x), product(b, x, x)};
  for (const ir::View& one : products) {
    const auto p = b.argument(x.sizes);
    b.map(p, [](Value a, Value c) { return a - c; }, p, one);
  }
  return b;
}

/// A product, and twice that, of which another one is made.
inline ProgramBuilder doubled_product() {
  using ir::Value;
  ProgramBuilder b;
  const auto x = b.argument({512, 512}), once = product(b, x, x), twice = b.temporary(x.sizes);
  b.map(twice, [](Value v) { return v * 2; }, once);
  const auto last = product(b, x, twice), out = b.output(x.sizes);
  b.map(out, [](Value v) { return v + 1; }, last);
  return b;
}

/// A map of a product that is read by the next product and, after a dozen others, by the last.
inline ProgramBuilder kept_for_long() {
  using ir::Value;
  ProgramBuilder b;
  const auto x = b.argument({512, 512}), once = product(b, x, x), kept = b.temporary(x.sizes);
  b.map(kept, [](Value v) { return ir::min(v, v.like(3)) * v; }, once);
  ir::View last = kept;
  for (int k = 0; k < 12; ++k) last = product(b, last, x);
  const auto out = b.output(x.sizes);
  b.map(out, [](Value v, Value w) { return v - w; }, product(b, last, kept), once);
  return b;
}

/// Two maps of the same function, which takes long; the second runs behind a sum of the first.
inline ProgramBuilder same_function(const std::vector<int64_t>& sizes = {64, 128}) {
  using ir::Value;
  ProgramBuilder b;
  const auto x = b.argument(sizes), y = b.temporary(sizes), sum = b.temporary({sizes[0], 1}),
             out = b.output(sizes);
  auto slow = [](Value v) { return ir::call(ir::Routine::VectorErfc, v); };
  b.map(y, [&](Value v) { return v * slow(v); }, x);
  b.reduce_last(sum, ir::ReduceOp::Max, y, kFloat);
  b.map(out, [&](Value v, Value w) { return slow(v) - w; }, x, sum);
  return b;
}

/// A product with a matrix that is made of nothing.
inline ProgramBuilder product_with_table() {
  using ir::Value;
  ProgramBuilder b;
  const auto x = b.argument({128, 128}), table = b.temporary(x.sizes);
  ir::StatementBuilder s(table.sizes);
  b.program.items.emplace_back(s.store(table, (s.axis(0) - s.axis(1)).to(kFloat)));
  const auto made = product(b, x, table), out = b.output(x.sizes);
  b.map(out, [](Value v) { return v + 1; }, made);
  return b;
}

/// Whole numbers from -4 to 4 for each argument of the program.
inline std::vector<at::Tensor> whole_numbers(const ProgramBuilder& b) {
  std::vector<at::Tensor> made;
  for (const ir::View& v : b.arguments) {
    int64_t count = ir::numel(v.sizes), seed = static_cast<int64_t>(made.size());
    at::Tensor t = (at::arange(count, at::kLong) * (7 + 4 * seed) + seed).remainder(9) - 4;
    made.push_back(t.to(v.dtype).reshape(v.sizes));
  }
  return made;
}

/// Rows that are added up in 64 places, of which an index from 0 to 63 picks one each.
inline ProgramBuilder rows_by_index() {
  using ir::Value;
  ProgramBuilder b;
  constexpr int64_t kRows = 1200, kColumns = 20, kPlaces = 64;
  auto x = b.argument({kRows, kColumns}), index = b.storage(ir::Role::Temporary, {kRows}, kLong);
  auto out = b.output({kPlaces, kColumns});
  ir::StatementBuilder place({kRows});
  b.program.items.emplace_back(
      place.store(index, (place.axis(0) * 7) & place.integer(kPlaces - 1, kLong)));
  ir::StatementBuilder zero(out.sizes);
  b.program.items.emplace_back(zero.store(out, zero.constant(0, kFloat)));
  ir::StatementBuilder s({kRows, kColumns});
  Value at = s.load(ir::Access{index.storage, kLong, 0, {1, 0}, {}});
  const ir::Access where{out.storage, kFloat, 0, {0, 1}, {{at.id, kColumns, kPlaces}}};
  ir::Statement step = s.store(where, s.load(where) + s.load(x));
  step.growth = {0, 0};
  b.program.items.emplace_back(ir::Repeat{kRows, {std::move(step)}});
  return b;
}

/// Rows that are doubled, and one less where an index, always 0 here, says.
inline ProgramBuilder one_less_per_row() {
  using ir::Value;
  ProgramBuilder b;
  auto x = b.argument({24, 40}), index = b.storage(ir::Role::Temporary, {24}, kLong);
  auto out = b.output(x.sizes);
  ir::StatementBuilder zero({24});
  b.program.items.emplace_back(zero.store(index, zero.integer(0, kLong)));
  b.map(out, [](Value v) { return v * 2; }, x);
  ir::StatementBuilder s({1, 24});
  Value at = s.load(ir::Access{index.storage, kLong, 0, {0, 1}, {}});
  const ir::Access place{out.storage, kFloat, 0, {0, 40}, {{at.id, 1, 40}}};
  ir::Statement step = s.store(place, s.load(place) - 1.0);
  step.growth = {0, 0};
  b.program.items.emplace_back(ir::Repeat{1, {std::move(step)}});
  return b;
}

/// How often each remainder comes.
inline ProgramBuilder counted_remainders() {
  using ir::Value;
  ProgramBuilder b;
  constexpr int64_t kTerms = 20000, kPlaces = 8;
  auto out = b.output({kPlaces});
  ir::StatementBuilder zero(out.sizes);
  b.program.items.emplace_back(zero.store(out, zero.constant(0, kFloat)));
  ir::StatementBuilder s({kTerms});
  Value at = (s.axis(0) * 5) & s.integer(kPlaces - 1, kLong);
  const ir::Access where{out.storage, kFloat, 0, {0}, {{at.id, 1, kPlaces}}};
  ir::Statement step = s.store(where, s.load(where) + 1.0);
  step.growth = {0};
  b.program.items.emplace_back(ir::Repeat{kTerms, {std::move(step)}});
  return b;
}

}  // namespace graft::passes
