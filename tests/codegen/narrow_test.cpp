// BFloat16: cheap roundings next to ties and of every kind of number, and vectors whose lanes are
// the halves of words.
#include <gtest/gtest.h>

#include "codegen/kernels.h"

namespace graft::test {
namespace {

using c10::ScalarType;
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
};

/// Quotients by 1 + e^x of every x: their bits are eager's formula's.
TEST(Narrow, QuotientsByOnePlusExp) {
  at::manual_seed(3);
  const at::Tensor every = every_bfloat16();
  const int64_t n = every.numel();
  const at::Tensor others[] = {at::randn({n}).to(at::kBFloat16),
                               every.index_select(0, at::randperm(n)),
                               at::full({n}, 1e-38).to(at::kBFloat16)};
  for (const at::Tensor& other : others)
    for (const Formula formula : kFormulas)
      for (const bool flushes : {false, true}) {
        if (flushes && !at::globalContext().setFlushDenormal(true)) continue;
        KernelMaker k;
        StatementBuilder s({n});
        Value value = formula(s.load(k.storage(every)), s.load(k.storage(other)));
        nest(k, s.store(k.storage(at::zeros({n}, at::kBFloat16)), value), 0, 0);
        EXPECT_EQ(difference(k), "") << &formula - kFormulas << " " << flushes;
        at::globalContext().setFlushDenormal(false);
      }
}

/// Floats, of which NaNs have any bits and most exponents are not exact.
TEST(Narrow, QuotientsOfFloats) {
  at::manual_seed(4);
  const int64_t n = 200000;
  const at::Tensor any = at::randint(std::numeric_limits<int>::min(),
                                     std::numeric_limits<int>::max(), {n}, at::kInt)
                             .view(at::kFloat),
                   normal = at::randn({n}) * 4, wide = at::randn({n}) * 20;
  for (const at::Tensor& x : {any, normal, wide})
    for (const at::Tensor& y : {any, normal}) {
      KernelMaker k;
      StatementBuilder s({n});
      Value value = narrow(s.load(k.storage(y)) / one_plus_exp(-s.load(k.storage(x))));
      nest(k, s.store(k.storage(at::zeros({n}, at::kBFloat16)), value), 0, 0);
      EXPECT_EQ(difference(k), "");
    }
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
