// Stream: which results are stored past the cache.
#include "passes/stream.h"

#include <gtest/gtest.h>

#include "build.h"

namespace graft::passes {
namespace {

using ir::Value;

TEST(Stream, LargeResultsThatNothingReadsGoPastTheCache) {
  auto streamed = [](std::vector<int64_t> sizes, bool read) {
    ProgramBuilder b;
    auto x = b.argument(sizes), y = b.output(sizes), z = b.output(sizes);
    b.map(y, [](Value v) { return v * v; }, x);
    // Read backwards, so that no loop can pass it on.
    auto from = read ? y : x;
    from.byte_offset += (sizes[0] - 1) * from.strides[0] * 4;
    from.strides[0] = -from.strides[0];
    b.map(z, [](Value v) { return -v; }, from);
    Settings settings;
    settings.target.last_cache_bytes = 4 << 20;
    return count_of("streamed", schedule_of(b, {"inline"}, settings));
  };
  EXPECT_EQ(streamed({1024, 512}, false), 2u);
  EXPECT_EQ(streamed({1024, 512}, true), 1u);
  EXPECT_EQ(streamed({256, 512}, false), 0u) << "both fit the cache";
}

TEST(Stream, AResultThatIsReadWhereItIsMadeGoesPastTheCache) {
  ProgramBuilder b;
  auto x = b.argument({1024, 512}), y = b.output({1024, 512}), z = b.output({1024, 512});
  b.map(y, [](Value v) { return v * v; }, x);
  b.map(z, [](Value v) { return -v; }, y);
  Settings settings;
  settings.target.last_cache_bytes = 4 << 20;
  EXPECT_EQ(schedule_of(b, {"inline"}, settings),
            "kernel map\n"
            "  vector v0:524288\n"
            "    %1[v0] f32 = (%0[v0] * %0[v0])  streamed\n"
            "    %2[v0] f32 = neg(%1[v0])  streamed\n"
            "result 0 = %1 f32[1024,512]:(512,1)\n"
            "result 1 = %2 f32[1024,512]:(512,1)\n");
}

TEST(Stream, TheLastStateOfWhatChangesInPlaceGoesPastTheCache) {
  ProgramBuilder b;
  auto x = b.argument({1024, 1024}), y = b.output({1024, 1024});
  b.map(y, [](Value v) { return v * v; }, x);
  b.map(y, [](Value v) { return v + 1.0; }, y);
  Settings settings;
  settings.target.last_cache_bytes = 4 << 20;
  EXPECT_EQ(schedule_of(b, {"inline"}, settings),
            "kernel map\n"
            "  vector v0:1048576\n"
            "    %1[v0] f32 = (%0[v0] * %0[v0])\n"
            "    %1[v0] f32 = (%1[v0] + 1)  streamed\n"
            "result 0 = %1 f32[1024,1024]:(1024,1)\n");
}

}  // namespace
}  // namespace graft::passes
