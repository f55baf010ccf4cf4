// Where kernels load and store: strides of every kind, data as indices, guards, ranges, several
// statements per loop.
#include <gtest/gtest.h>

#include "codegen/kernels.h"
#include "support/compare.h"

namespace graft::test {
namespace {

using c10::ScalarType;
using ir::StatementBuilder;
using ir::Value;

constexpr ScalarType kSomeTypes[] = {ScalarType::Bool,  ScalarType::Char,   ScalarType::BFloat16,
                                     ScalarType::Float, ScalarType::Double, ScalarType::Long};

/// A view of `t`'s storage along one axis: elements first, first + step, ….
ir::View along(const ir::View& storage, int64_t first, int64_t step, int64_t count) {
  ir::View view = storage;
  view.byte_offset = first * static_cast<int64_t>(c10::elementSize(storage.dtype));
  view.sizes = {count};
  view.strides = {step};
  return view;
}

TEST(Access, StridesAlongLanes) {
  for (ScalarType type : kSomeTypes)
    for (int64_t n : {5, 16, 70, 131})
      for (int64_t from : {1, -1, 2, 3, -2})
        for (int64_t to : {1, -1, 3, -3}) {
          KernelMaker k;
          StatementBuilder s({n});
          ir::View x = k.storage(sample({400}, type)), y = k.storage(at::zeros({400}, type));
          Value value = s.load(along(x, from < 0 ? 399 : 0, from, n));
          nest(k, s.store(along(y, to < 0 ? 399 : 0, to, n), value), 0, 0);
          EXPECT_EQ(difference(k), "")
              << c10::toString(type) << " " << n << ": " << from << " to " << to;
        }
}

TEST(Access, Broadcasts) {
  for (int vector : {0, 1, 2, -1})
    for (int ranges : {0, 1, 2}) {
      if (vector >= 0 && vector < ranges) continue;
      KernelMaker k;
      StatementBuilder s({3, 5, 37});
      Value a = s.load(k.storage(tame({37}, at::kFloat, 1))),
            b = s.load(k.storage(tame({5, 1}, at::kFloat, 2)));
      Value c = s.load(k.storage(tame({3, 1, 1}, at::kFloat, 3))),
            d = s.load(k.storage(tame({1}, at::kFloat, 4)));
      Value e = s.load(k.storage(tame({37, 5, 3}, at::kFloat, 5).permute({2, 1, 0})));
      nest(k, s.store(k.storage(at::zeros({3, 5, 37})), (a * b + c) * d - e), ranges, vector);
      EXPECT_EQ(difference(k), "") << vector << " " << ranges;
    }
}

TEST(Access, RangesOfManyDimensions) {
  for (auto sizes : {std::vector<int64_t>{2, 3, 4, 5, 6},
                     {1, 3, 1, 5, 6},
                     {7, 1, 1, 1, 1},
                     {1, 1, 1, 1, 9},
                     {1, 1, 1, 1, 1}})
    for (int ranges : {1, 3, 4, 5}) {
      KernelMaker k;
      StatementBuilder s(sizes);
      Value x = s.load(k.storage(tame(sizes, at::kFloat, 1))),
            row = s.load(k.storage(tame({sizes[3], 1}, at::kFloat, 2)));
      Value at = (s.axis(1) * s.integer(10, at::kLong) + s.axis(3)).to(at::kFloat);
      nest(k, s.store(k.storage(at::zeros(sizes)), x * row + at), ranges, 4);
      EXPECT_EQ(difference(k), "") << ranges;
    }
}

TEST(Access, SerialLoopsInsideVectorLoops) {
  for (ScalarType type : {ScalarType::Float, ScalarType::BFloat16, ScalarType::Long}) {
    KernelMaker k;
    StatementBuilder s({90, 7});
    Value x = s.load(k.storage(sample({90, 7}, type, 1))),
          y = s.load(k.storage(sample({90, 1}, type, 2))),
          z = s.load(k.storage(sample({7}, type, 3)));
    nest(k,
         s.store(k.storage(at::zeros({7, 90}, type).t()),
                 ir::select(ir::gt(x.to(at::kDouble), y.to(at::kDouble)), x, z)),
         0, 0);
    EXPECT_EQ(difference(k), "") << c10::toString(type);
  }
}

TEST(Access, Indirect) {
  for (ScalarType type : kSomeTypes)
    for (int vector : {0, 1, -1}) {
      KernelMaker k;
      StatementBuilder s({9, 33});
      ir::View table = k.storage(sample({50, 33}, type)), wide = k.storage(sample({100}, type, 3));
      at::Tensor rows = at::arange(9, at::kLong) * 5 + 2,
                 each = (at::arange(9 * 33, at::kInt) * 7 % 100).view({9, 33});
      Value row = s.load([&] {
        ir::View v = k.storage(rows);
        v.sizes = {9, 1};
        v.strides = {1, 0};
        return v;
      }());
      Value index = s.load(k.storage(each)).to(at::kLong);
      ir::Access by_row{table.storage, type, 0, {0, 1}, {{row.id, 33}}};
      ir::Access anywhere{
          wide.storage, type, 3, {0, 0}, {{(index - s.integer(3, at::kLong)).id, 1}}};
      Value a = s.load(by_row), b = s.load(anywhere);
      Value value =
          ir::select(ir::eq(s.axis(1) & s.integer(1, at::kLong), s.integer(0, at::kLong)), a, b);
      nest(k, s.store(k.storage(at::zeros({9, 33}, type)), value), 0, vector);
      EXPECT_EQ(difference(k), "") << c10::toString(type) << vector;
    }
}

/// Few entries lie in registers; more are gathered, by offsets of 32 bits where they are near.
TEST(Access, Tables) {
  for (ScalarType type : kSomeTypes)
    for (int64_t entries : {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 5000})
      for (int64_t stride : {1, 3}) {
        KernelMaker k;
        StatementBuilder s({9, 37});
        ir::View table = k.storage(sample({entries * stride}, type));
        at::Tensor which = (at::arange(9 * 37, at::kLong) * 7919 % entries).view({9, 37});
        Value index = s.load(k.storage(which));
        ir::Access picked{table.storage, type, 0, {0, 0}, {{index.id, stride, entries}}};
        nest(k, s.store(k.storage(at::zeros({9, 37}, type)), s.load(picked)), 0, 1);
        EXPECT_EQ(difference(k), "") << c10::toString(type) << entries << " x " << stride;
      }
}

/// What an index from data may store elsewhere leaves the store before it needed.
TEST(Access, AStoreBeforeAnIndirectOne) {
  for (int64_t place : {0, 3}) {
    KernelMaker k;
    ir::View out = k.storage(at::zeros({5}));
    ir::View first = out;
    first.sizes = {1};
    StatementBuilder plain({1}), picked({1});
    Value index = picked.load(k.storage(at::tensor({place})));
    Value x = picked.load(k.storage(at::tensor({7.0f})));
    nest(k, plain.store(first, plain.load(k.storage(at::tensor({5.0f})))), 0, -1);
    nest(k, picked.store(ir::Access{out.storage, ScalarType::Float, 0, {0}, {{index.id, 1}}}, x), 0,
         -1);
    EXPECT_EQ(difference(k), "") << place;
  }
}

TEST(Access, IndirectStores) {
  for (ScalarType type : kSomeTypes)
    for (int vector : {0, 1, -1}) {
      KernelMaker k;
      StatementBuilder s({20, 33});
      ir::View out = k.storage(at::zeros({20, 33}, type));
      at::Tensor order = (at::arange(20, at::kLong) * 7 + 3) % 20;
      Value row = s.load([&] {
        ir::View v = k.storage(order);
        v.sizes = {20, 1};
        v.strides = {1, 0};
        return v;
      }());
      Value x = s.load(k.storage(sample({20, 33}, type)));
      nest(k, s.store(ir::Access{out.storage, type, 0, {0, 1}, {{row.id, 33}}}, x), 0, vector);
      EXPECT_EQ(difference(k), "") << c10::toString(type) << vector;
    }
}

/// The range is the rows that an index picks: difference() runs it in parts.
TEST(Access, StepsAreSharedByTheRowsTheyStoreTo) {
  for (int64_t steps : {1, 1024, 2500})
    for (ScalarType type : {at::kFloat, at::kDouble, at::kLong}) {
      KernelMaker k;
      const ir::View out = k.storage(tame({70, 20}, type, 1)),
                     x = k.storage(tame({steps, 20}, type, 2));
      ir::View order = k.storage((at::arange(steps, at::kLong) * 37 + 5) % 70);
      order.sizes = {steps, 1};
      order.strides = {1, 0};
      const int step = k.variable(steps, ir::LoopKind::Step), column = k.vector(20);
      StatementBuilder s({steps, 20});
      const Value row = s.load(order);
      const ir::Access place{out.storage, type, 0, {0, 1}, {{row.id, 20, 70}}};
      ir::Statement add = s.store(place, s.load(place) + s.load(x));
      k.body(KernelMaker::loop(step,
                               KernelMaker::loop(column, k.place(std::move(add), {step, column}))));
      k.kernel.rows = 70;
      EXPECT_EQ(difference(k), "") << steps << c10::toString(type);
    }
}

TEST(Statements, ShareLoadsAndForwardStores) {
  for (int64_t n : {10, 64, 200}) {
    KernelMaker k;
    ir::View x = k.storage(tame({n}, at::kFloat, 1)), y = k.storage(at::zeros({n}, at::kBFloat16)),
             z = k.storage(at::zeros({n}));
    int v = k.vector(n);
    StatementBuilder a({n});
    ir::Statement first = a.store(y, a.load(x) * 3.0);
    StatementBuilder b({n});
    ir::Statement second = b.store(z, b.load(y).to(at::kFloat) + b.load(x));
    StatementBuilder c({n});
    ir::Statement third = c.store(x, c.load(z) + c.load(x));
    ir::TreeNode n0 = k.place(std::move(first), {v}), n1 = k.place(std::move(second), {v}),
                 n2 = k.place(std::move(third), {v});
    k.body(KernelMaker::loop(v, std::move(n0), std::move(n1), std::move(n2)));
    EXPECT_EQ(difference(k), "") << n;
  }
}

TEST(Statements, KeepTheOrderOfMemory) {
  // The second statement reads, through another view, what the first stored; the third overwrites
  // what both read.
  KernelMaker k;
  ir::View x = k.storage(tame({2, 100}, at::kFloat, 1)),
           y = k.storage(tame({2, 100}, at::kFloat, 2));
  ir::View as_int = x;
  as_int.dtype = at::kInt;
  int r = k.range(2), v = k.vector(100);
  StatementBuilder a({2, 100});
  ir::Statement first = a.store(x, a.load(x) + a.load(y));
  StatementBuilder b({2, 100});
  Value bits = b.load(as_int);
  ir::Statement second = b.store(y, (bits & b.integer(~0xff, at::kInt)).to(at::kFloat));
  StatementBuilder c({2, 100});
  ir::Statement third = c.store(x, c.load(y) - c.load(x));
  ir::TreeNode n0 = k.place(std::move(first), {r, v}), n1 = k.place(std::move(second), {r, v}),
               n2 = k.place(std::move(third), {r, v});
  k.body(KernelMaker::loop(v, std::move(n0), std::move(n1), std::move(n2)));
  EXPECT_EQ(difference(k), "");
}

TEST(Statements, SerialStepsThatBuildOnEachOther) {
  // for t: row = row * w[t] + x[t]: each step reads what the one before stored.
  KernelMaker k;
  ir::View row = k.storage(tame({50}, at::kFloat, 1)), w = k.storage(tame({6, 1}, at::kFloat, 2)),
           x = k.storage(tame({6, 50}, at::kFloat, 3));
  int t = k.serial(6), v = k.vector(50);
  StatementBuilder s({6, 50});
  ir::Access place{row.storage, at::kFloat, 0, {0, 1}, {}};
  Value next = s.load(place) * s.load(w) + s.load(x);
  KernelMaker other;
  other.kernel.vars = k.kernel.vars;
  ir::Statement statement = s.store(place, next);
  // The interpreter runs statements of a kernel in the loops' order too; the verifier knows two
  // points store one place.
  k.body(KernelMaker::loop(t, KernelMaker::loop(v, k.place(std::move(statement), {t, v}))));
  at::Tensor expected = k.tensors[0].clone();
  for (int64_t i = 0; i < 6; ++i)
    expected = expected * k.tensors[1].select(0, i) + k.tensors[2].select(0, i);
  run_compiled(k.kernel, k.tensors, codegen::host_target(1), 1);
  EXPECT_TRUE(same(k.tensors[0], expected));
}

}  // namespace
}  // namespace graft::test
