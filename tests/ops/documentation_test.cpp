// docs/operators.md is printed from the tables; GRAFT_UPDATE_DOCS=1 writes it anew.
#include "ops/documentation.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace graft::ops {
namespace {

TEST(Documentation, OfOperatorsIsTheTables) {
  const std::string path = GRAFT_SOURCE_DIR "/docs/operators.md";
  if (std::getenv("GRAFT_UPDATE_DOCS") != nullptr) std::ofstream(path) << operator_documentation();
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(text.str() == operator_documentation())
      << path << " is not what the tables say; GRAFT_UPDATE_DOCS=1 build/tests/test_ops "
      << "--gtest_filter='Documentation.*' writes it anew";
}

}  // namespace
}  // namespace graft::ops
