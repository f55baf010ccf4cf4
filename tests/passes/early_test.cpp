// Early: what frees large temporaries runs as soon as it can, and no sooner.
#include "passes/early.h"

#include <gtest/gtest.h>

#include "build.h"
#include "ir/parse.h"
#include "ir/touch.h"

namespace graft::passes {
namespace {

/// What each step writes first, in order: "%2 %3 %0 %1".
std::string order_of(const std::string& program) {
  const ir::Program parsed = ir::parse(program);
  EXPECT_EQ(ir::verify(parsed), "");
  Settings settings;
  settings.skip = {"inline", "fuse"};
  const ir::Schedule schedule = run(parsed, settings);
  std::string text;
  for (const ir::Step& step : schedule.steps) {
    bool first = true;
    ir::each_touch(step, [&](int storage, bool writes) {
      if (writes && first) text += (text.empty() ? "%" : " %") + std::to_string(storage);
      first = first && !writes;
    });
    if (std::holds_alternative<ir::Abort>(step)) text += " abort";
  }
  return text;
}

/// Two gradients, then two updates. `between` stands before the updates.
std::string updates(const std::string& call, const std::string& between = "") {
  return R"(
    argument 0 = %0 f32[512,512]:(512,1)
    argument 1 = %1 f32[512,512]:(512,1)
    argument 2 = %2 f32[512,512]:(512,1)
    %0: argument 0, 1048576 bytes
    %1: argument 1, 1048576 bytes
    %2: argument 2, 1048576 bytes
    %3: temporary, 1048576 bytes, made by extern
    %4: temporary, 1048576 bytes, made by extern
    %5: output, 1048576 bytes
    %3 f32[512,512]:(512,1) = )" +
         call + R"((%2 f32[512,512]:(512,1), %2 f32[512,512]:(512,1)) writes %3
    %4 f32[512,512]:(512,1) = )" +
         call + R"((%2 f32[512,512]:(512,1), %2 f32[512,512]:(512,1)) writes %4
    )" + between +
         R"(
    [a:512,b:512] %0[a*512+b] f32 = (%0[a*512+b] - %3[a*512+b])
    [a:512,b:512] %1[a*512+b] f32 = (%1[a*512+b] - %4[a*512+b])
    [a:512,b:512] %5[a*512+b] f32 = (%2[a*512+b] + 1)
    result 0 = %5 f32[512,512]:(512,1)
  )";
}

TEST(Early, AnUpdateFollowsItsGradient) {
  EXPECT_EQ(order_of(updates("aten::mm")), "%3 %0 %4 %1 %5");
  const std::string apart = R"([a:512,b:512] %5[a*512+b] f32 = (%2[a*512+b] * 2))";
  EXPECT_EQ(order_of(updates("aten::mm", apart)), "%3 %0 %4 %1 %5");
}

TEST(Early, NothingOfTheCallersChangesBeforeACallThatMayFail) {
  const std::string later =
      "%5 f32[512,512]:(512,1) = aten::linalg_inv(%2 f32[512,512]:(512,1)) writes %5";
  const std::string program = updates("aten::mm", later);
  EXPECT_EQ(order_of(program).substr(0, 8), "%3 %4 %5") << program;
}

/// Two gradients, each copied and summed over processes.
std::string sums(const std::string& between = "") {
  return R"(
    argument 0 = %0 f32[64,64]:(64,1)
    %0: argument 0, 16384 bytes
    %1: temporary, 16384 bytes, made by extern
    %2: temporary, 16384 bytes, made by extern
    %3: output, 16384 bytes
    %4: output, 16384 bytes
    %5: temporary, 1 bytes
    %1 f32[64,64]:(64,1) = aten::mm(%0 f32[64,64]:(64,1), %0 f32[64,64]:(64,1)) writes %1
    )" + between +
         R"(
    %2 f32[64,64]:(64,1) = aten::mm(%0 f32[64,64]:(64,1), %1 f32[64,64]:(64,1)) writes %2
    [a:64,b:64] %3[a*64+b] f32 = (%1[a*64+b] + 1)
    graft::start_(%3 f32[64,64]:(64,1), "world") writes %3
    [a:64,b:64] %4[a*64+b] f32 = (%2[a*64+b] + 1)
    graft::start_(%4 f32[64,64]:(64,1), "world") writes %4
    graft::wait_(%3 f32[64,64]:(64,1), "world") writes %3
    graft::wait_(%4 f32[64,64]:(64,1), "world") writes %4
    result 0 = %3 f32[64,64]:(64,1)
    result 1 = %4 f32[64,64]:(64,1)
  )";
}

TEST(Early, ACollectiveStartsAsSoonAsItsTensorIsThere) {
  EXPECT_EQ(order_of(sums()), "%1 %3 %3 %2 %4 %4 %3 %4");
}

/// A run that ends at the check is run again by eager, which starts it once more.
TEST(Early, NoCollectiveStartsBeforeACheck) {
  const std::string check = R"([a:64] %5[0] bool = reduced  reduced = or.bool{a} (%0.f32[a] >= 512)
    abort if %5)";
  const std::string order = order_of(sums(check));
  EXPECT_LT(order.find("abort"), order.find("%3")) << order;
}

/// Its index may be checked there.
TEST(Early, NothingRunsBeforeACheck) {
  const std::string program = R"(
    argument 0 = %0 f32[512,512]:(512,1)
    argument 1 = %1 i64[4]:(1)
    %0: argument 0, 1048576 bytes
    %1: argument 1, 32 bytes
    %2: temporary, 1048576 bytes, made by extern
    %3: temporary, 32 bytes
    %4: temporary, 1 bytes
    %5: output, 8192 bytes
    %2 f32[512,512]:(512,1) = aten::mm(%0 f32[512,512]:(512,1), %0 f32[512,512]:(512,1)) writes %2
    [a:4] %3[a] i64 = (%1[a] + 1)
    [a:4] %4[0] bool = reduced  reduced = or.bool{a} (%3.i64[a] >= 512)
    abort if %4
    [a:4,b:512] %5[a*512+b] f32 = %2[b+(%3[a]:512)*512]
    result 0 = %5 f32[4,512]:(512,1)
  )";
  const std::string order = order_of(program);
  EXPECT_LT(order.find("abort"), order.find("%5")) << order;
}

TEST(Early, WhatReadsTheParameterComesFirst) {
  const std::string reads =
      "%5 f32[512,512]:(512,1) = aten::mm(%0 f32[512,512]:(512,1), %2 f32[512,512]:(512,1)) "
      "writes %5";
  EXPECT_EQ(order_of(updates("aten::mm", reads)).substr(0, 14), "%3 %4 %1 %5 %0");
}

}  // namespace
}  // namespace graft::passes
