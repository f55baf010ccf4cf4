#include "lab/env.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace graft::lab {
namespace {

TEST(Environment, ReadsThisMachine) {
  const Environment e = read_environment("1.2.3");
  EXPECT_GE(e.logical_cpus, 1);
  EXPECT_GE(e.physical_cores, 1);
  EXPECT_LE(e.physical_cores, e.logical_cpus);
  EXPECT_GT(e.memory_bytes, 0);
  EXPECT_GE(e.threads, 1);
  EXPECT_FALSE(e.torch.empty());
  EXPECT_FALSE(e.aten_cpu.empty());
  EXPECT_FALSE(e.compiler.empty());
}

TEST(Environment, AsJsonAndAsTable) {
  const Environment e = read_environment("1.2.3");
  const nlohmann::json json = to_json(e);
  EXPECT_EQ(json["graft"], "1.2.3");
  EXPECT_EQ(json["threads"], e.threads);
  EXPECT_TRUE(json["caches"].is_array());
  EXPECT_TRUE(json["flags"].is_array());
  std::ostringstream out;
  print(out, e);
  EXPECT_NE(out.str().find("Graft"), std::string::npos);
  EXPECT_NE(out.str().find("1.2.3"), std::string::npos);
}

}  // namespace
}  // namespace graft::lab
