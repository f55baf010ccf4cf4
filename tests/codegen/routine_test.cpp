// Every routine, in vector loops and out of them, with the bits of one call per element.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "codegen/kernels.h"
#include "support/compare.h"

namespace graft::test {
namespace {

using c10::ScalarType;
using ir::Routine;
using ir::StatementBuilder;
using ir::Value;

constexpr Routine kRoutines[] = {
#define ROUTINE(form, function, text, arity, cost) Routine::form##function,
#include "ir/routines.def"
};

/// Are there the symbols in this libtorch, and instructions?
bool exists(Routine routine, ScalarType type) {
  if (routine == Routine::FormulaFusedSqrt && !codegen::host_target(1).avx512()) return false;
  return routine != Routine::ArraySinh && routine != Routine::ArrayCosh &&
         (ir::info(routine).form != ir::RoutineForm::Formula || type == ScalarType::Float);
}

TEST(Routine, OnLanesAndOnScalars) {
  for (Routine routine : kRoutines)
    for (ScalarType type : {ScalarType::Float, ScalarType::Double})
      for (int64_t n : {3, 100, 1200}) {
        if (!exists(routine, type)) continue;
        KernelMaker k;
        StatementBuilder s({n});
        // Ordinary numbers: SLEEF's trigonometry looks at all lanes when one is huge, so results
        // depend on neighbours.
        Value x = s.load(k.storage(tame({n}, type, 3)));
        Value value = ir::info(routine).arity == 2
                          ? ir::call(routine, x, s.load(k.storage(tame({n}, type, 4))))
                          : ir::call(routine, x);
        nest(k, s.store(k.storage(at::zeros({n}, type)), value), 0, n == 3 ? -1 : 0);
        double tolerance =
            routine == Routine::NearExp ? (type == ScalarType::Float ? 1.2e-7 : 2.3e-16) : 0;
        EXPECT_EQ(difference(k, tolerance), "")
            << ir::info(routine).name << " " << c10::toString(type) << " " << n;
      }
}

/// A remainder of lanes is found without the C library and has its bits: numbers of every exponent,
/// quotients next to whole ones, and with them what has none.
TEST(Routine, RemaindersAreExact) {
  at::manual_seed(5);
  const int64_t n = 40000;
  auto check = [&](const at::Tensor& x, const at::Tensor& y, const std::string& what) {
    KernelMaker k;
    StatementBuilder s({n});
    nest(k,
         s.store(k.storage(at::zeros({n}, x.scalar_type())),
                 ir::call(Routine::ScalarFmod, s.load(k.storage(x)), s.load(k.storage(y)))),
         0, 0);
    EXPECT_EQ(difference(k), "") << what << " " << c10::toString(x.scalar_type());
  };
  const at::Tensor bits = at::randint(std::numeric_limits<int64_t>::min() / 2,
                                      std::numeric_limits<int64_t>::max() / 2, {2, n}, at::kLong) *
                          2;
  for (ScalarType type : {ScalarType::Float, ScalarType::Double}) {
    const at::Tensor any = type == ScalarType::Double
                               ? bits.view(at::kDouble)
                               : bits.bitwise_right_shift(32).to(at::kInt).view(at::kFloat);
    check(any[0], any[1], "any");
    // Quotients below 2^22, as most are.
    const at::Tensor y = at::randn({n}, type) * at::exp2(at::randint(-90, 90, {n}).to(type)),
                     q = at::exp2(at::rand({n}, type) * 23 - 1);
    check(y * q, y, "near");
    check(y * q.round(), y, "multiples");
    check(at::nextafter(y * q.round(), at::zeros({n}, type)), y, "below multiples");
    check(at::nextafter(y * q.round(), y * 1e30), y, "above multiples");
    check(at::nextafter(y, at::zeros({n}, type)), y, "below");
    check(any[0] * std::numeric_limits<float>::denorm_min(), y * 1e-38, "small");
    if (at::globalContext().setFlushDenormal(true)) {
      check(any[0] * std::numeric_limits<float>::denorm_min(), y * 1e-38, "small, flushed");
      if (type == ScalarType::Double)
        check(at::full({n}, 1e-310, type), at::ones({n}, type), "subnormal");
      at::globalContext().setFlushDenormal(false);
    }
    at::Tensor odd = y.clone();
    for (int64_t k = 0; k < n; k += 97)
      odd[k] = std::vector<double>{0, -0., INFINITY, -INFINITY, NAN}[static_cast<size_t>(k % 5)];
    check(odd, y, "odd numbers");
    check(y, odd, "by odd numbers");
  }
}

TEST(Routine, OfOneArgumentOnEveryKindOfNumber) {
  for (Routine routine : kRoutines)
    for (ScalarType type : {ScalarType::Float, ScalarType::Double}) {
      if (!exists(routine, type) || ir::info(routine).arity != 1) continue;
      std::string name(ir::info(routine).name);
      if (name == "VectorSin" || name == "VectorCos" || name == "VectorTan") continue;
      KernelMaker k;
      StatementBuilder s({700});
      Value value = ir::call(routine, s.load(k.storage(sample({700}, type, 3))));
      nest(k, s.store(k.storage(at::zeros({700}, type)), value), 0, 0);
      EXPECT_EQ(difference(k, routine == Routine::NearExp ? 2e-7 : 0), "")
          << name << " " << c10::toString(type);
    }
}

TEST(Routine, BitsOfEager) {
  if (!codegen::host_target(1).avx2())
    GTEST_SKIP() << "ATen's baseline kernels call other routines";
  using Eager = at::Tensor (*)(const at::Tensor&);
  std::pair<Routine, Eager> pairs[] = {
      {Routine::ArrayExp, &at::exp},     {Routine::ArrayLog, &at::log},
      {Routine::ArraySin, &at::sin},     {Routine::ArrayCos, &at::cos},
      {Routine::ArrayTanh, &at::tanh},   {Routine::ArrayErf, &at::erf},
      {Routine::ArrayTan, &at::tan},     {Routine::ArrayAtan, &at::atan},
      {Routine::ArrayErfc, &at::erfc},   {Routine::VectorExpm1, &at::expm1},
      {Routine::VectorLog1p, &at::log1p}};
  for (auto [routine, eager] : pairs)
    for (ScalarType type : {ScalarType::Float, ScalarType::Double}) {
      int64_t n = 100000;
      at::Tensor x = at::randn({n}, type) * 4, y = at::zeros({n}, type);
      KernelMaker k;
      StatementBuilder s({n});
      Value value = ir::call(routine, s.load(k.storage(x)));
      nest(k, s.store(k.storage(y), value), 0, 0);
      run_compiled(k.kernel, k.tensors);
      EXPECT_TRUE(same(y, eager(x))) << ir::info(routine).name << " " << c10::toString(type);
    }
}

TEST(Routine, ArraysInStrips) {
  // exp(tanh(x) + x * w) with a statement between that stores what a later one reads, and a sum of
  // the results.
  for (int64_t n : {1, 15, 16, 511, 512, 513, 700, 2100}) {
    KernelMaker k;
    ir::View x = k.storage(tame({3, n}, at::kFloat, 1)), w = k.storage(tame({n}, at::kFloat, 2));
    ir::View y = k.storage(at::zeros({3, n})), z = k.storage(at::zeros({3, n}, at::kBFloat16)),
             total = k.storage(at::zeros({3, 1}, at::kDouble));
    int r = k.range(3), v = k.vector(n);
    StatementBuilder a({3, n});
    Value t = ir::call(Routine::ArrayTanh, a.load(x));
    ir::TreeNode first =
        k.place(a.store(y, ir::call(Routine::ArrayExp, t + a.load(x) * a.load(w)) * t), {r, v});
    StatementBuilder b({3, n});
    ir::TreeNode second =
        k.place(b.store(z, ir::call(Routine::ArrayLog, b.load(y) * b.load(y) + 1.0)), {r, v});
    StatementBuilder c({3, n});
    ir::TreeNode third = k.place(c.store(x, c.load(x) + c.load(z).to(at::kFloat)), {r, v});
    StatementBuilder d({3, n});
    Value sum = d.reduce(ir::ReduceOp::Sum, ir::call(Routine::ArrayExp, d.load(x)), {false, true},
                         at::kDouble);
    ir::TreeNode fourth = k.place(d.store(total, sum), {r, v});
    k.body(KernelMaker::loop(v, std::move(first), std::move(second), std::move(third),
                             std::move(fourth)));
    EXPECT_EQ(difference(k, 1e-6), "") << n;
  }
}

TEST(Routine, ArraysInsideSerialLoops) {
  KernelMaker k;
  StatementBuilder s({70, 5});
  Value x = s.load(k.storage(tame({70, 5}, at::kFloat, 1)));
  Value sum =
      s.reduce(ir::ReduceOp::Sum, ir::call(Routine::ArrayExp, x), {false, true}, at::kDouble);
  nest(k, s.store(k.storage(at::zeros({70, 1}, at::kDouble)), sum), 0, 0);
  EXPECT_EQ(difference(k, 1e-6), "");
}

}  // namespace
}  // namespace graft::test
