// In place: which results may take over the memory of what a kernel reads for the last time.
#include "passes/in_place.h"

#include <gtest/gtest.h>

#include "build.h"
#include "ir/parse.h"

namespace graft::passes {
namespace {

constexpr const char* kProduct = "aten::mm(%0 f32[512,512]:(512,1), %0 f32[512,512]:(512,1))";

/// %1 is made by `call`, %2 by `statements` and read by another call. `later`: what follows.
int in_place_of(const std::string& statements, const std::string& later = "",
                const std::string& call = kProduct) {
  const ir::Program program = ir::parse(R"(
    argument 0 = %0 f32[512,512]:(512,1)
    %0: argument 0, 1048576 bytes
    %1: temporary, 1048576 bytes, made by extern
    %2: temporary, 1048576 bytes
    %3: output, 1048576 bytes, made by extern
    %4: temporary, 2048 bytes
    %1 f32[512,512]:(512,1) = )" + call +
                                        R"( writes %1
    )" + statements + R"(
    %3 f32[512,512]:(512,1) = aten::mm(%2 f32[512,512]:(512,1), %0 f32[512,512]:(512,1)) writes %3
    )" + later + R"(
    result 0 = %3 f32[512,512]:(512,1)
  )");
  EXPECT_EQ(ir::verify(program), "");
  return run(program, {}).in_place_of.at(2);
}

TEST(InPlace, AMapOfWhatIsReadForTheLastTime) {
  EXPECT_EQ(in_place_of("[a:512,b:512] %2[a*512+b] f32 = (%1[a*512+b] * %1[a*512+b])"), 1);
  EXPECT_EQ(in_place_of("[a:512,b:512] %2[a*512+b] f32 = (%1[a*512+b] * %0[b*512+a])"), 1);
}

TEST(InPlace, RowsThatAreReadBefore) {
  EXPECT_EQ(in_place_of("[a:512,b:512] %4[a] f32 = reduced  reduced = max.f32{b} %1[a*512+b]\n"
                        "[a:512,b:512] %2[a*512+b] f32 = (%1[a*512+b] - %4[a])"),
            1);
}

TEST(InPlace, NotWhatOtherElementsNeed) {
  EXPECT_EQ(in_place_of("[a:512,b:512] %2[a*512+b] f32 = (%1[b*512+a] * 2)"), -1);
  EXPECT_EQ(in_place_of("[a:512,b:512] %2[a*512+b] f32 = (%1[a*512+b] - %1[a*512])"), -1);
  EXPECT_EQ(in_place_of("[a:512,b:512] %2[a*512+b] f32 = (%1[a*512+b] - %1[b])"), -1);
}

TEST(InPlace, NotWhatIsReadLater) {
  EXPECT_EQ(in_place_of("[a:512,b:512] %2[a*512+b] f32 = (%1[a*512+b] * 2)",
                        "[a:512,b:512] %0[a*512+b] f32 = %1[a*512+b]"),
            -1);
}

/// An operator may return memory that somebody else holds, too.
TEST(InPlace, NotWhatAnyOperatorMade) {
  EXPECT_EQ(in_place_of("[a:512,b:512] %2[a*512+b] f32 = (%1[a*512+b] * 2)", "",
                        "aten::linalg_inv(%0 f32[512,512]:(512,1))"),
            -1);
}

TEST(InPlace, NotTheCallersMemory) {
  EXPECT_EQ(in_place_of("[a:512,b:512] %2[a*512+b] f32 = (%0[a*512+b] * 2)"), -1);
}

}  // namespace
}  // namespace graft::passes
