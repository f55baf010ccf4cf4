// What reductions, norms and indexing look like as loop programs.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/lowered.h"

namespace graft::test {
namespace {

using at::Tensor;

/// The statements and checks of the lowered function, a line each.
std::string items(const Function& fn, const Tensors& args) {
  LoweredRun run = lower_run(fn, args);
  if (run.lowered.broken) return *run.lowered.broken;
  std::string text;
  for (const ir::Item& item : run.lowered.program.items) {
    if (const auto* statement = std::get_if<ir::Statement>(&item))
      text += ir::print(*statement) + "\n";
    if (std::get_if<ir::Abort>(&item) != nullptr) text += "abort\n";
    if (std::get_if<ir::Extern>(&item) != nullptr) text += "extern\n";
  }
  return text;
}

Tensor floats(at::IntArrayRef sizes) {
  return at::zeros(sizes);
}
Tensor halves(at::IntArrayRef sizes) {
  return at::zeros(sizes, at::kBFloat16);
}
Tensor longs(at::IntArrayRef sizes) {
  return at::zeros(sizes, at::kLong);
}

TEST(ReductionLower, SumsAccumulateInDoubleOverTheInputsOwnAxes) {
  EXPECT_EQ(
      items([](Tensors& a) { return Tensors{a[0].sum(0)}; }, {halves({4, 6}).t()}),
      "[a:6,b:4] %1[b] bf16 = bf16(reduced)  reduced = sum.f64{a} f64(f32(%0.bf16[a+b*6]))\n");
  EXPECT_EQ(items([](Tensors& a) { return Tensors{a[0].mean(-1, true)}; }, {floats({4, 6})}),
            "[a:4,b:6] %1[a] f32 = f32((reduced / $6))  reduced = sum.f64{b} f64(%0.f32[a*6+b])\n");
}

TEST(ReductionLower, MaximumAndItsPlaceAreTwoStatements) {
  auto max = [](Tensors& a) {
    auto [values, places] = a[0].max(1);
    return Tensors{values, places};
  };
  EXPECT_EQ(items(max, {halves({4, 6})}),
            "[a:4,b:6] %1[a] bf16 = bf16(reduced)  reduced = max.f32{b} f32(%0.bf16[a*6+b])\n"
            "[a:4,b:6] %2[a] i64 = reduced  reduced = argmax.i64{b} f32(%0.bf16[a*6+b])\n");
}

TEST(ReductionLower, DeviationTakesTwoPasses) {
  EXPECT_EQ(items([](Tensors& a) { return Tensors{a[0].std(1)}; }, {floats({4, 6})}),
            "[a:4,b:6] %2[a] f64 = (reduced / $6)  reduced = sum.f64{b} f64(%0.f32[a*6+b])\n"
            "[a:4,b:6] %1[a] f32 = f32(sqrt((reduced / $5)))  "
            "reduced = sum.f64{b} (t1 * t1); t1 = (f64(%0.f32[a*6+b]) - %2[a])\n");
}

TEST(ReductionLower, CumulativeSumIsAScanInPlace) {
  EXPECT_EQ(items([](Tensors& a) { return Tensors{a[0].cumsum_(1)}; }, {halves({4, 6})}),
            "[a:4,b:6] %0[a*6+b] bf16 = bf16(reduced)  scan sum.f32{b} f32(%0.bf16[a*6+b])\n");
}

TEST(ReductionLower, SumsOfManyResultsWidenTheirTerms) {
  EXPECT_EQ(items([](Tensors& a) { return Tensors{a[0].sum(0)}; }, {halves({80, 90}).t()}),
            "[a:90,b:80] %1[b] bf16 = bf16(reduced)  reduced = sum.f64{a} f32(%0.bf16[a+b*90])\n");
  EXPECT_EQ(items([](Tensors& a) { return Tensors{a[0].var(-1)}; }, {floats({40, 6})}),
            "[a:40,b:6] %2[a] f64 = (reduced / $6)  reduced = sum.f64{b} f64(%0.f32[a*6+b])\n"
            "[a:40,b:6] %1[a] f32 = f32((reduced / $5))  reduced = sum.f64{b} (t1 * t1); "
            "t1 = (f64(%0.f32[a*6+b]) - %2[a])\n");
}

TEST(ReductionLower, SoftmaxKeepsOneValuePerRowBetweenItsStatements) {
  EXPECT_EQ(items([](Tensors& a) { return Tensors{a[0].softmax(-1)}; }, {halves({4, 6})}),
            "[a:4,b:6] %2[a] f32 = reduced  reduced = max.f32{b} f32(%0.bf16[a*6+b])\n"
            "[a:4,b:6] %3[a*6+b] f32 = NearExp((f32(%0.bf16[a*6+b]) - %2[a]))\n"
            "[a:4,b:6] %4[a] f32 = f32((1 / reduced))  reduced = sum.f64{b} f64(%3.f32[a*6+b])\n"
            "[a:4,b:6] %1[a*6+b] bf16 = bf16((%3.f32[a*6+b] * %4[a]))\n");
}

TEST(ReductionLower, LayerNorm) {
  auto layer_norm = [](Tensors& a) { return Tensors{at::layer_norm(a[0], {6}, a[1], a[2])}; };
  EXPECT_EQ(items(layer_norm, {floats({4, 6}), floats({6}), floats({6})}),
            "[a:4,b:6] %6[a] f64 = (reduced / $6)  reduced = sum.f64{b} f64(%0.f32[a*6+b])\n"
            "[a:4,b:6] %7[a] f64 = (1 / sqrt((select((f32(t2) == inf), inf, t2) + $1e-05)))  "
            "reduced = sum.f64{b} f64((t1 * t1)); t1 = (%0[a*6+b] - f32(%6.f64[a])); t2 = (reduced "
            "/ $6)\n"
            "[a:4,b:1] %4[a] f32 = f32(%6.f64[a])\n"
            "[a:4,b:1] %5[a] f32 = f32(%7.f64[a])\n"
            "[a:4,b:6] %3[a*6+b] f32 = fma(fma((%0[a*6+b] - t1), f32(%7.f64[a]), "
            "f32(((f64(t1) - %6[a]) * %7[a]))), %1[b], %2[b]); t1 = f32(%6.f64[a])\n");
}

TEST(ReductionLower, ReadsByIndexAreCheckedFirst) {
  EXPECT_EQ(items([](Tensors& a) { return Tensors{at::embedding(a[0], a[1])}; },
                  {floats({10, 6}), longs({3, 2})}),
            "[a:3,b:2] %3[0] bool = reduced  reduced = or.bool{a,b} ((%1.i64[a*2+b] < 0) | "
            "(%1.i64[a*2+b] >= $10))\n"
            "abort\n"
            "[a:3,b:2,c:6] %2[a*12+b*6+c] f32 = %0[c+(%1[a*2+b]:10)*6]\n");
}

TEST(ReductionLower, SubscriptsWrapAndBroadcast) {
  EXPECT_EQ(
      items([](Tensors& a) { return Tensors{a[0].index({{}, a[1], a[2]})}; },
            {floats({4, 5, 6, 7}), longs({3}), longs({2, 1})}),
      "[a:3] %4[0] bool = reduced  reduced = or.bool{a} ((%1.i64[a] < $-5) | (%1.i64[a] >= $5))\n"
      "abort\n"
      "[a:2] %5[0] bool = reduced  reduced = or.bool{a} ((%2.i64[a] < $-6) | (%2.i64[a] >= $6))\n"
      "abort\n"
      "[a:4,b:2,c:3,d:7] %3[a*42+b*21+c*7+d] f32 = %0[a*210+d+(select((%1.i64[c] < 0), (%1[c] + "
      "$5), %1[c]):5)*42"
      "+(select((%2.i64[b] < 0), (%2[b] + $6), %2[b]):6)*7]\n");
}

TEST(ReductionLower, WritesByIndex) {
  EXPECT_EQ(
      items([](Tensors& a) { return Tensors{a[0].index_put({a[1]}, a[2])}; },
            {floats({4, 5}), longs({3}), floats({})}),
      "[a:3] %4[0] bool = reduced  reduced = or.bool{a} ((%1.i64[a] < $-4) | (%1.i64[a] >= $4))\n"
      "abort\n"
      "[a:4,b:5] %3[a*5+b] f32 = %0[a*5+b]\n"
      "[a:3,b:5] %3[b+(select((%1.i64[a] < 0), (%1[a] + $4), %1[a]):4)*5] f32 = %2[0]\n");
  EXPECT_EQ(
      items([](Tensors& a) { return Tensors{a[0].scatter_(1, a[1], 1)}; },
            {floats({4, 5}), longs({4, 1})}),
      "[a:4] %2[0] bool = reduced  reduced = or.bool{a} ((%1.i64[a] < 0) | (%1.i64[a] >= $5))\n"
      "abort\n"
      "[a:4,b:1] %0[a*5+(%1[a]:5)] f32 = $1\n");
}

}  // namespace
}  // namespace graft::test
