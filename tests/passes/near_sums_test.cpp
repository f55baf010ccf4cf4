// Near-sums: which functions of one number become those of vectors, held as text.
#include "passes/near_sums.h"

#include <gtest/gtest.h>

#include "build.h"

namespace graft::passes {
namespace {

/// The only statement of a program over %0[64,100], after the pass.
std::string after_near(const std::string& line) {
  return items_after("%0: argument 0, 25600 bytes\n%1: output, 25600 bytes\n" + line +
                         "\nresult 0 = %1 f32[64]:(1)\n",
                     near_sums);
}

const std::string kSum = "[a:64,b:100] %1[a] f32 = f32(reduced)  reduced = sum.f64{b} ";

TEST(NearSums, ATermsFunctionIsComputedByVector) {
  EXPECT_EQ(after_near(kSum + "f64((%0.f32[a*100+b] * ScalarLog(%0.f32[a*100+b])))"),
            kSum + "f64((%0.f32[a*100+b] * VectorLog(%0[a*100+b])))\n");
}

TEST(NearSums, WhatIsComparedOrRoundedKeepsItsBits) {
  for (const char* term :
       {"f64(select((t1 < $1), t1, 0)); t1 = ScalarLog(%0.f32[a*100+b])",
        "f64(floor(ScalarLog(%0.f32[a*100+b])))", "f64(ArrayExp(ScalarLog(%0.f32[a*100+b])))"}) {
    EXPECT_EQ(after_near(kSum + term), kSum + term + "\n");
  }
}

TEST(NearSums, StoresAndMaximaKeepTheirBits) {
  for (const char* line :
       {"[a:64] %1[a] f32 = ScalarLog(%0[a])",
        "[a:64,b:100] %1[a] f32 = reduced  reduced = max.f32{b} ScalarLog(%0[a*100+b])",
        "[a:64,b:100] %1[a] f32 = ScalarLog(f32(reduced))  reduced = sum.f64{b} "
        "f64(%0.f32[a*100+b])"})
    EXPECT_EQ(after_near(line), line + std::string("\n"));
}

}  // namespace
}  // namespace graft::passes
