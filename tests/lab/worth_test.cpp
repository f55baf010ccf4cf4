// Regions in order of what compiling them saves.

#include "lab/profile/worth.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

namespace graft::lab {
namespace {

TEST(Worth, OrdersByWhatCompilingSaves) {
  std::vector<RegionGain> regions{
      {.name = "small", .calls = 1, .share = 0.05, .eager_ms = 2, .compiled_ms = 0.5},
      {.name = "large",
       .calls = 6,
       .share = 0.6,
       .eager_ms = 3,
       .compiled_ms = 1.5,
       .compile_ms = 100},
      {.name = "slower", .share = 0.2, .eager_ms = 1, .compiled_ms = 1.5, .compile_ms = 9},
      {.name = "stays", .share = 0.15, .eager_ms = 1, .compiled_ms = 0.9, .stays_eager = true}};
  order_by_saving(regions);
  EXPECT_EQ(regions[0].name, "large");
  EXPECT_EQ(regions[1].name, "small");
  EXPECT_EQ(regions[2].name, "stays");
  EXPECT_EQ(regions[3].name, "slower");
  EXPECT_DOUBLE_EQ(regions[0].speedup(), 2);
  EXPECT_DOUBLE_EQ(regions[0].saves(), 0.3);
  EXPECT_DOUBLE_EQ(regions[0].pays_after(), 12);  // 100 / (6 x 1.5), rounded up
  EXPECT_DOUBLE_EQ(regions[2].saves(), 0);
  EXPECT_DOUBLE_EQ(regions[3].saves(), -0.1);
  EXPECT_DOUBLE_EQ(total_saving(regions), 0.3 + 0.0375);
  std::ostringstream out;
  table_of(regions).print(out);
  const std::string text = out.str();
  EXPECT_NE(text.find("12 runs"), std::string::npos) << text;
  EXPECT_NE(text.find("never"), std::string::npos) << text;
  const auto json = to_json(regions);
  EXPECT_EQ(json[0]["region"], "large");
  EXPECT_EQ(json[0]["saves"], 0.3);
  EXPECT_NE(json.dump().find("\"pays_after\":null"), std::string::npos);
}

}  // namespace
}  // namespace graft::lab
