// BFloat16: cheap roundings next to ties and of every kind of number, and vectors whose lanes are
// the halves of words.
#include <gtest/gtest.h>

#include "codegen/kernels.h"

namespace graft::test {
namespace {

using c10::ScalarType;
using ir::fma;
using ir::ReduceOp;
using ir::Routine;
using ir::StatementBuilder;
using ir::Value;

/// All there are, in order of their bits.
at::Tensor every_bfloat16() {
  return at::arange(-32768, 32768, at::kInt).to(at::kShort).view(at::kBFloat16);
}

Value wide(Value x) {
  return x.to(ScalarType::Float);
}
Value narrow(Value x) {
  return x.to(ScalarType::BFloat16);
}
Value one_plus_exp(Value x) {
  return 1 + ir::call(Routine::VectorExp, x);
}

Value tanh(Value x) {
  return ir::call(Routine::VectorTanh, x);
}
/// GELU by tanh, and its gradient, as ATen has them.
Value gelu(Value x) {
  Value inner = 0.79788456 * fma(x.like(0.044715), x * x * x, x);
  return 0.5 * x * (1 + tanh(inner));
}
Value gelu_slope(Value x) {
  Value square = x * x;
  Value t = tanh(0.79788456 * fma(x.like(0.044715), square * x, x));
  Value inner_slope = 0.79788456 * fma(x.like(0.134145), square, x.like(1));
  Value right = 1 + t;
  return fma(right.like(0.5), right, 0.5 * x * fma(-t, t, x.like(1)) * inner_slope);
}
Value silu_slope(Value x) {
  Value sigmoid = 1 / one_plus_exp(-x);
  return sigmoid * fma(x, 1 - sigmoid, x.like(1));
}

using Formula = Value (*)(Value x, Value y);
constexpr Formula kFormulas[] = {
    [](Value x, Value) { return narrow(1 / one_plus_exp(-wide(x))); },
    [](Value x, Value) { return narrow(wide(x) / one_plus_exp(-wide(x))); },
    [](Value x, Value) { return narrow(wide(x) / one_plus_exp(wide(x))); },
    [](Value x, Value y) { return narrow(wide(y) / one_plus_exp(-wide(x))); },
    [](Value x, Value y) { return narrow(wide(x) / one_plus_exp(-wide(x)) * wide(y)); },
    [](Value x, Value y) { return narrow(-(wide(y) / one_plus_exp(-wide(x)) * wide(y) * 3)); },
    [](Value x, Value y) {
      return narrow(wide(narrow(wide(x) / one_plus_exp(-wide(x)))) * wide(y));
    },
    [](Value x, Value) { return narrow(tanh(wide(x))); },
    [](Value x, Value y) { return narrow(wide(y) * tanh(wide(x) * wide(y))); },
    [](Value x, Value) { return narrow(gelu(wide(x))); },
    [](Value x, Value y) { return narrow(wide(y) * gelu_slope(wide(x))); },
    [](Value x, Value y) { return narrow(wide(y) * silu_slope(wide(x))); },
    [](Value x, Value y) { return narrow(tanh(wide(x)) - tanh(wide(y)) * wide(x)); },
    [](Value x, Value y) { return narrow(1 / one_plus_exp(wide(x)) - wide(y)); },
    [](Value x, Value y) {  // of which only one tanh is nobody else's
      Value t = tanh(wide(x));
      return narrow(t * wide(y) + wide(narrow(t + 1)));
    },
};

constexpr int kLanes = 16;  ///< one that is not sure sends all to eager's formula

void check(const Formula& formula, at::Tensor x, at::Tensor y, int64_t repeated,
           const std::string& what) {
  x = x.repeat_interleave(repeated), y = y.repeat_interleave(repeated);
  const int64_t n = x.numel();
  KernelMaker k;
  StatementBuilder s({n});
  Value value = formula(s.load(k.storage(x)), s.load(k.storage(y)));
  nest(k, s.store(k.storage(at::zeros({n}, at::kBFloat16)), narrow(value)), 0, 0);
  EXPECT_EQ(difference(k), "") << what << ", repeated " << repeated;
}

/// Of every x: their bits are eager's formula's.
TEST(Narrow, CheapRoundings) {
  at::manual_seed(3);
  const at::Tensor every = every_bfloat16();
  const int64_t n = every.numel();
  const at::Tensor others[] = {
      every.index_select(0, at::randperm(n)), at::randn({n}).to(at::kBFloat16),
      at::full({n}, 1e-38).to(at::kBFloat16), at::full({n}, 3e37).to(at::kBFloat16)};
  for (const at::Tensor& other : others)
    for (const Formula& formula : kFormulas)
      check(formula, every, other, &other == others ? kLanes : 1,
            std::to_string(&formula - kFormulas));
  if (!at::globalContext().setFlushDenormal(true)) return;
  for (const Formula& formula : kFormulas)
    check(formula, every, others[0], 1, "flushed " + std::to_string(&formula - kFormulas));
  at::globalContext().setFlushDenormal(false);
}

/// Floats, of which NaNs have any bits and most exponents are not exact; with factors that make of
/// what is lost next to subnormal and to infinite numbers more than it was.
TEST(Narrow, CheapRoundingsOfFloats) {
  at::manual_seed(4);
  const int64_t n = 4000;
  const at::Tensor bits = at::randint(std::numeric_limits<int>::min(),
                                      std::numeric_limits<int>::max(), {n}, at::kInt),
                   any = bits.view(at::kFloat),
                   small = bits.bitwise_and(0x8001ffff).view(at::kFloat),
                   normal = at::randn({n}) * 4, edge = at::rand({n}) * 1.5 + 8,
                   far = at::cat({edge, -edge}).slice(0, 0, n * 2, 2), large = normal * 1e37,
                   smallest = bits.bitwise_and(0x8000000f).view(at::kFloat);
  constexpr Formula kOfFloats[] = {
      [](Value x, Value y) { return y / one_plus_exp(-x); },
      [](Value x, Value y) { return y * (1 + tanh(x)); },
      [](Value x, Value y) { return y * (tanh(x) - 1); },
      [](Value x, Value y) { return y * fma(tanh(x), tanh(x), x.like(-1)); },
      [](Value x, Value y) { return x / one_plus_exp(-x) * y; },
      [](Value x, Value y) { return tanh(x) * y; },
      [](Value x, Value y) { return tanh(x) * y - y; },
      [](Value x, Value y) { return y / one_plus_exp(-x) * 3e37; },
      [](Value x, Value y) { return y / one_plus_exp(-x) * 30 * 0x1p-20; },
      [](Value x, Value y) { return tanh(x) * y * 1e3 - y * 1e3; },
      [](Value x, Value y) { return fma(y / one_plus_exp(-x), y.like(3e37), tanh(x) * 1e-30); },
      [](Value x, Value y) {
        Value r = fma(tanh(x), y, -(y * 0.999));
        return fma(r, r, x.like(0x1p-40));
      },
      [](Value x, Value y) { return y * gelu_slope(x); },
  };
  for (const at::Tensor& x : {any, small, normal, far})
    for (const at::Tensor& y : {any, small, smallest, normal, large})
      for (const Formula& formula : kOfFloats)
        check(formula, x, y, kLanes, std::to_string(&formula - kOfFloats));
}

/// Each value is asked for twice: ways through the expression are as many as numbers of 60 bits.
TEST(Narrow, ExpressionOfManyWays) {
  const int64_t n = 100;
  KernelMaker k;
  StatementBuilder s({n});
  Value t = tanh(wide(s.load(k.storage(sample({n}, at::kBFloat16)))));
  for (int step = 0; step < 60; ++step) t = t + t * t;
  nest(k, s.store(k.storage(at::zeros({n}, at::kBFloat16)), narrow(t)), 0, 0);
  EXPECT_EQ(difference(k), "");
}

/// A quotient that others read, too, and one under a mask of lanes.
TEST(Narrow, QuotientThatIsKept) {
  for (const int64_t n : {1, 15, 16, 17, 63, 64, 65, 129}) {
    KernelMaker k;
    const int v = k.vector(n);
    const ir::View x = k.storage(sample({n}, at::kBFloat16)),
                   kept = k.storage(at::zeros({n}, at::kFloat)),
                   narrowed = k.storage(at::zeros({n}, at::kBFloat16));
    StatementBuilder a({n}), b({n});
    Value first = wide(a.load(x)) / one_plus_exp(-wide(a.load(x)));
    Value second = wide(b.load(x)) / one_plus_exp(-wide(b.load(x)));
    auto loop = std::make_unique<ir::Loop>();
    loop->var = v;
    loop->body.push_back(k.place(a.store(kept, first), {v}));
    loop->body.push_back(k.place(b.store(narrowed, narrow(second)), {v}));
    k.body({std::move(loop), -1});
    EXPECT_EQ(difference(k), "") << n;
  }
}

/// A view of some elements of a storage, from the first on.
ir::View from(ir::View storage, int64_t first, int64_t count) {
  storage.byte_offset = first * static_cast<int64_t>(c10::elementSize(storage.dtype));
  storage.sizes = {count};
  return storage;
}

/// Every length, from every place in a line: the halves go where they belong.
TEST(Narrow, HalvesOfWords) {
  for (int64_t n = 1; n <= 260; n += n < 140 ? 1 : 17)
    for (const int64_t first : {0, 1, 7}) {
      KernelMaker k;
      const ir::View x = from(k.storage(sample({n + first}, at::kBFloat16, 1)), first, n),
                     y = from(k.storage(sample({n + 3}, at::kBFloat16, 2)), 3, n),
                     z = from(k.storage(at::zeros({n + first}, at::kBFloat16)), first, n);
      const int v = k.vector(n);
      auto loop = std::make_unique<ir::Loop>();
      loop->var = v;
      // z = x y; x is changed in place; z again.
      StatementBuilder a({n}), b({n}), c({n});
      loop->body.push_back(k.place(a.store(z, narrow(wide(a.load(x)) * wide(a.load(y)))), {v}));
      loop->body.push_back(k.place(b.store(x, narrow(wide(b.load(x)) + 1)), {v}));
      loop->body.push_back(k.place(c.store(z, narrow(wide(c.load(z)) - wide(c.load(x)))), {v}));
      k.body({std::move(loop), -1});
      EXPECT_EQ(difference(k), "") << n << " from " << first;
    }
}

/// Rows of one storage by two indices, and one that is stored to by an index.
TEST(Narrow, HalvesOfWordsOfRowsByIndex) {
  const int64_t rows = 6, n = 150;
  KernelMaker k;
  const ir::View table = k.storage(tame({rows, n}, at::kBFloat16, 1)),
                 to = k.storage(at::zeros({rows, n}, at::kBFloat16)),
                 from = k.storage(at::randint(0, rows, {rows}, at::kLong)),
                 back = k.storage(at::arange(rows - 1, -1, -1, at::kLong)),
                 last = k.storage(at::zeros({rows, n}, at::kBFloat16));
  const int r = k.serial(rows), c = k.vector(n);
  auto row_of = [&](StatementBuilder& s, const ir::View& view, const ir::View& index) {
    ir::View each = index;
    each.sizes = {rows, 1};
    each.strides = {1, 0};
    ir::Access access{view.storage, view.dtype, 0, {0, 1}, {}};
    access.indirect.push_back({s.load(each).id, n, rows});
    return access;
  };
  StatementBuilder a({rows, n}), b({rows, n});
  Value sum = wide(a.load(row_of(a, table, from))) + wide(a.load(row_of(a, table, back)));
  ir::Statement first = a.store(row_of(a, to, back), narrow(sum));
  ir::Statement second = b.store(last, narrow(wide(b.load(row_of(b, to, from))) * 2));
  k.body(KernelMaker::loop(r, KernelMaker::loop(c, k.place(std::move(first), {r, c}),
                                                k.place(std::move(second), {r, c}))));
  EXPECT_EQ(difference(k), "");
}

/// Beside what has another type, another stride or an index, and the largest of a row.
TEST(Narrow, HalvesOfWordsBesideOthers) {
  const int64_t n = 200;
  auto check = [&](const at::Tensor& other, int64_t stride, bool counts) {
    KernelMaker k;
    const ir::View x = k.storage(tame({n}, at::kBFloat16, 1)),
                   z = k.storage(at::zeros({n}, at::kBFloat16));
    ir::View y = k.storage(other);
    y.sizes = {n};
    y.strides = {stride};
    StatementBuilder s({n});
    Value value = wide(s.load(x)) * s.load(y).to(ScalarType::Float);
    if (counts) value = value + s.axis(0).to(ScalarType::Float);
    nest(k, s.store(z, narrow(value)), 0, 0);
    EXPECT_EQ(difference(k), "") << other.scalar_type() << " " << stride;
  };
  check(tame({n}, at::kFloat, 2), 1, false);
  check(tame({n}, at::kChar, 2), 1, false);
  check(tame({2 * n}, at::kBFloat16, 2), 2, false);
  check(tame({n}, at::kBFloat16, 2), 0, false);
  check(tame({n}, at::kBFloat16, 2), 1, true);
  for (const ReduceOp op : {ReduceOp::Max, ReduceOp::Min, ReduceOp::Sum, ReduceOp::ArgMax}) {
    KernelMaker k;
    StatementBuilder s({3, n});
    const auto type = ir::finds_place(op) ? ScalarType::Long : ScalarType::Float;
    const bool sums = op == ReduceOp::Sum;
    Value x = wide(s.load(k.storage((sums ? tame : sample)({3, n}, at::kBFloat16, 5))));
    Value reduced = s.reduce(op, x, {false, true}, type);
    nest(k, s.store(k.storage(at::zeros({3, 1}, type)), reduced), 1, 1);
    EXPECT_EQ(difference(k, sums ? 1e-4 : 0), "") << static_cast<int>(op);
  }
}

}  // namespace
}  // namespace graft::test
