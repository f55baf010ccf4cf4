// What is measured of the machine: as text, rounded, and for real.
#include "runtime/process/machine_times.h"

#include <gtest/gtest.h>

namespace graft::runtime {
namespace {

TEST(MachineTimes, TextHoldsThem) {
  ir::Times times;
  times.memory_byte = 0.123;
  const std::string text = text_of(times, "GenuineIntel 0001");
  const auto read = times_of(text, "GenuineIntel 0001");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->memory_byte, 0.123);
  EXPECT_EQ(read->far_line, times.far_line);
  EXPECT_EQ(read->product_flop, times.product_flop);
  EXPECT_FALSE(times_of(text, "AuthenticAMD 0002"));
  EXPECT_FALSE(times_of("", "GenuineIntel 0001"));
  EXPECT_FALSE(times_of("graft machine times 0\n" + text, "GenuineIntel 0001"));
  for (size_t length = 0; length + 1 < text.size(); length += 5)
    if (const auto part = times_of(text.substr(0, length), "GenuineIntel 0001")) {
      EXPECT_EQ(part->memory_byte, 0.123) << length;  // all but digits of the last number
    }
  std::string bad = text;
  bad.replace(bad.find("0.123"), 5, "-1");
  EXPECT_FALSE(times_of(bad, "GenuineIntel 0001"));
}

TEST(MachineTimes, NoiseIsRoundedAway) {
  const ir::Times assumed;
  ir::Times measured;  // about what the machine gives that the assumed ones were fitted on
  measured.instruction = 0.0330, measured.memory_byte = 0.0190, measured.far_line = 4.8;
  const ir::Times times = rounded(measured);
  EXPECT_EQ(times.memory_byte, assumed.memory_byte);
  EXPECT_EQ(times.instruction, assumed.instruction);
  EXPECT_EQ(times.cache_byte, assumed.cache_byte);
  EXPECT_DOUBLE_EQ(times.far_line, 2 * assumed.far_line);
  measured.instruction = 0.0660;
  EXPECT_DOUBLE_EQ(rounded(measured).instruction, 2 * assumed.instruction);
  measured.product_flop = 0.0030, measured.call_flop = 0.0051;
  EXPECT_NEAR(rounded(measured).product_flop, assumed.product_flop * 0.0030 / 0.0046, 1e-4);
  EXPECT_EQ(rounded(measured).call_flop, assumed.call_flop);
  measured.call_flop = 0.0055;  // plans depend on how kernels' products and calls compare
  EXPECT_NEAR(rounded(measured).call_flop, assumed.call_flop * 1.1, 1e-4);
  measured.instruction = 0;  // nothing came of it
  EXPECT_EQ(rounded(measured).instruction, assumed.instruction);
  measured.memory_byte = 100;
  EXPECT_DOUBLE_EQ(rounded(measured).memory_byte, 8 * assumed.memory_byte);
}

TEST(MachineTimes, Measures) {
  const std::optional<ir::Times> times = measure_times();
  if (!times) GTEST_SKIP() << "the machine is busy";
  EXPECT_GT(times->instruction, 0);
  EXPECT_GT(times->memory_byte, 0);
  EXPECT_GE(times->far_line, 1);
  EXPECT_GT(times->product_flop, 0);
  EXPECT_GT(times->call_flop, 0);
}

}  // namespace
}  // namespace graft::runtime
