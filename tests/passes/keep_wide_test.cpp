// Keep-wide: which roundings go under fast numerics, and which stay.
#include "passes/keep_wide.h"

#include <gtest/gtest.h>

#include "build.h"

namespace graft::passes {
namespace {

/// What it makes of one statement over two arguments of a dtype; the right-hand side alone.
std::string kept_wide(const std::string& dtype, const std::string& value) {
  const std::string text = items_after(
      "%0: argument 0, 64 bytes\n%1: argument 1, 64 bytes\n%2: output, 64 bytes\n[a:8] %2[a] " +
          dtype + " = " + value + "\nresult 0 = %2 " + dtype + "[8]:(1)\n",
      keep_wide);
  return text.substr(text.find(" = ") + 3);
}

TEST(KeepWide, RoundingsInsideAStatementGo) {
  EXPECT_EQ(kept_wide("bf16", "bf16((f32(bf16((f32(%0.bf16[a]) * f32(%1.bf16[a])))) + 1))"),
            "bf16(((f32(%0.bf16[a]) * f32(%1.bf16[a])) + 1))\n");
}

TEST(KeepWide, RoundingsOfDoublesStay) {
  EXPECT_EQ(kept_wide("f64", "f64(f32(%0.f64[a]))"), "f64(f32(%0.f64[a]))\n");
}

TEST(KeepWide, ExpOfFloatIsInline) {
  for (const char* exp : {"VectorExp", "ArrayExp", "FormulaExp"})
    EXPECT_EQ(kept_wide("f32", std::string(exp) + "(%0[a])"), "NearExp(%0[a])\n");
  EXPECT_EQ(kept_wide("f64", "VectorExp(%0[a])"), "VectorExp(%0[a])\n");
}

}  // namespace
}  // namespace graft::passes
