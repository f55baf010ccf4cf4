// Inline: readers that compute what a producer would have stored, and those that must not.
#include "passes/inline.h"

#include <gtest/gtest.h>

#include "build.h"

namespace graft::passes {
namespace {

using ir::Value;

TEST(Inline, ReaderOfAnOverwrittenInputIsNotMovedPastTheWrite) {
  ProgramBuilder b;
  auto x = b.argument({64});
  auto t = b.temporary({64});
  auto out = b.output({64});
  b.map(t, [](Value a) { return a * 2.0; }, x);  // reads x …
  b.map(x, [](Value a) { return a + 1.0; }, x);  // … which is then changed in place
  b.map(out, [](Value a) { return a + 3.0; }, t);
  std::string text = schedule_of(b, {"fuse"});
  EXPECT_NE(text.find("%1[v0] f32 = (%0[v0] * 2)"), std::string::npos) << text;
  EXPECT_NE(text.find("%2[v0] f32 = (%1[v0] + 3)"), std::string::npos) << text;
}

}  // namespace
}  // namespace graft::passes
