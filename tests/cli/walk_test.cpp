// docs/walk.md shows what graft explain prints: the page may not fall behind the command.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "support/command.h"

namespace graft::test {
namespace {

TEST(Cli, TheWalkIsWhatExplainPrints) {
  const Ran steps = graft("explain rope_f32 --small");
  const Ran source = graft("explain rope_f32 --small --source");
  ASSERT_EQ(steps.code, 0) << steps.out;
  ASSERT_EQ(source.code, 0) << source.out;
  const std::string printed = steps.out + source.out;
  std::ifstream walk(GRAFT_SOURCE_DIR "/docs/walk.md");
  int shown = 0;
  bool inside = false;
  for (std::string line; std::getline(walk, line);) {
    if (line.starts_with("```")) {
      inside = line == "```text";
    } else if (inside && !line.empty()) {
      ++shown;
      EXPECT_NE(printed.find(line), std::string::npos) << "docs/walk.md: " << line;
    }
  }
  EXPECT_GT(shown, 20) << "docs/walk.md has lost its text";
}

}  // namespace
}  // namespace graft::test
