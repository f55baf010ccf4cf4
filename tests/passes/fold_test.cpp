// Which storages are folded.
#include <gtest/gtest.h>

#include "programs.h"

namespace graft::passes {
namespace {

using ir::Role;
using ir::Value;

Settings folding(int64_t most) {
  Settings settings;
  settings.most_folded_bytes = most;
  return settings;
}

/// A product with what is computed of a captured matrix, which `changed` items change.
ProgramBuilder turned(bool changed) {
  ProgramBuilder b;
  const auto x = b.argument({64, 64}), held = b.storage(Role::Captured, x.sizes, kFloat),
             table = b.temporary(x.sizes);
  b.program.storages[static_cast<size_t>(held.storage)].source = 0;
  b.program.signature.captured.push_back(held);
  ir::View other = held;
  std::swap(other.strides[0], other.strides[1]);
  b.map(table, [](Value v) { return v * 2; }, other);
  const auto made = product(b, x, table), out = b.output(x.sizes);
  b.map(out, [](Value v) { return v + 1; }, made);
  if (changed) b.map(held, [](Value v) { return v + 1; }, held);
  return b;
}

TEST(Fold, WhatIsMadeOfNothing) {
  const ProgramBuilder b = product_with_table();
  EXPECT_EQ(count_of(", folded", schedule_of(b, {}, folding(1 << 20))), 1u);
  EXPECT_EQ(count_of(", folded", schedule_of(b, {}, folding(128 * 128 * 4))), 1u);
  EXPECT_EQ(count_of(", folded", schedule_of(b, {}, folding(128 * 128 * 4 - 1))), 0u);
  EXPECT_EQ(count_of(", folded", schedule_of(b)), 0u);
}

TEST(Fold, WhatIsMadeOfCapturedMemoryThatNothingWrites) {
  EXPECT_EQ(count_of(", folded", schedule_of(turned(false), {}, folding(1 << 20))), 1u);
  EXPECT_EQ(count_of(", folded", schedule_of(turned(true), {}, folding(1 << 20))), 0u);
}

/// What comes from arguments is another at each call.
TEST(Fold, NothingElse) {
  EXPECT_EQ(count_of(", folded", schedule_of(kept_for_long(), {}, folding(1 << 30))), 0u);
  EXPECT_EQ(count_of(", folded", schedule_of(same_function(), {}, folding(1 << 30))), 0u);
}

}  // namespace
}  // namespace graft::passes
