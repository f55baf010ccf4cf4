// Split-reduce: long sums with few results, cut into parts.
#include "passes/split_reduce.h"

#include <gtest/gtest.h>

#include "build.h"
#include "ir/parse.h"
#include "support/text.h"

namespace graft::passes {
namespace {

/// The schedule of one sum of so many elements.
std::string schedule_of_sum(int64_t count) {
  const std::string n = std::to_string(count);
  return schedule_of(ir::parse("argument 0 = %0 f32[" + n + "]:(1)\n%0: argument 0, " +
                               std::to_string(4 * count) + " bytes\n%1: output, 4 bytes\n[a:" + n +
                               "] %1[0] f32 = f32(reduced)  reduced = sum.f64{a} f64(%0.f32[a])\n" +
                               "result 0 = %1 f32[1]:(1)\n"));
}

TEST(SplitReduce, LongSumIsCutIntoParts) {
  std::string text = schedule_of_sum(1 << 20);
  EXPECT_NE(text.find("kernel sum v0:128\n  vector v1:8192\n"), std::string::npos) << text;
}

TEST(SplitReduce, PrimeLengthKeepsItsTail) {
  std::string text = schedule_of_sum(1000003);
  EXPECT_NE(text.find("vector v1:123\n"), std::string::npos)
      << text;  // 122 parts of 8192, and one of 579
  EXPECT_NE(text.find(":579\n"), std::string::npos) << text;
}

TEST(SplitReduce, AnySizeLeavesARestThatMayBeWhole) {
  auto kernels = [](int64_t count) {
    Settings settings;
    settings.any_size = true;
    const std::string n = std::to_string(count);
    const ir::Program program =
        ir::parse("argument 0 = %0 f32[" + n + "]:(1)\n%0: argument 0, " +
                  std::to_string(4 * count) + " bytes\n%1: output, 4 bytes\n[a:" + n +
                  "] %1[0] f32 = f32(reduced)  reduced = sum.f64{a} f64(%0.f32[a])\n" +
                  "result 0 = %1 f32[1]:(1)\n");
    return ir::print(split_reductions(program, settings));
  };
  // 127 parts of 8192 and one more, as 1000003 has 122 and one of 579.
  EXPECT_NE(kernels(1 << 20).find("[a:127,b:8192]"), std::string::npos) << kernels(1 << 20);
  EXPECT_NE(kernels(1 << 20).find("[a:8192]"), std::string::npos) << kernels(1 << 20);
  EXPECT_NE(kernels(1000003).find("[a:579]"), std::string::npos) << kernels(1000003);
}

/// The schedule of f(x) summed over the rows of a matrix, and kept as well.
std::string schedule_of_rows(int64_t rows, int64_t columns) {
  const std::string r = std::to_string(rows), c = std::to_string(columns),
                    size = std::to_string(4 * rows * columns), at = "[a*" + c + "+b]";
  return schedule_of(ir::parse(
      "argument 0 = %0 f32[" + r + "," + c + "]:(" + c + ",1)\n%0: argument 0, " + size +
      " bytes\n%1: output, " + size + " bytes\n%2: output, " + std::to_string(4 * columns) +
      " bytes\n[a:" + r + ",b:" + c + "] %1" + at + " f32 = (%0.f32" + at + " * %0.f32" + at +
      ")\n[a:" + r + ",b:" + c + "] %2[b] f32 = f32(reduced)  reduced = sum.f64{a} f64(%1.f32" +
      at + ")\nresult 0 = %1 f32[" + r + "," + c + "]:(" + c + ",1)\nresult 1 = %2 f32[" + c +
      "]:(1)\n"));
}

/// Blocks of rows, each walked along memory, in one kernel with what makes the rows.
TEST(SplitReduce, ASumOverRowsRunsInBlocksWithItsProducer) {
  std::string text = schedule_of_rows(4096, 1024);
  EXPECT_EQ(count_of("kernel ", text), 2u) << text;
  EXPECT_NE(text.find("kernel map_sum v0:64\n"), std::string::npos) << text;
  EXPECT_TRUE(test::comes_before(text, "  serial v2:64\n    vector v1:1024\n", "reduced = sum"));
}

TEST(SplitReduce, APrimeNumberOfRowsKeepsItsTail) {
  std::string text = schedule_of_rows(4099, 1024);
  EXPECT_NE(text.find("serial v1:3\n"), std::string::npos) << text;  // 64 blocks of 64, and 3 rows
}

/// Each row divided by its sum, beside the sums of columns before: 64 rows of 3072 leave half of
/// the second cache, 32 do not.
TEST(SplitReduce, BlocksStayInTheCacheOfWhatMakesThem) {
  std::string text = schedule_of(ir::parse(
      "argument 0 = %0 f32[4096,3072]:(3072,1)\n%0: argument 0, 50331648 bytes\n"
      "%1: temporary, 50331648 bytes\n%2: temporary, 32768 bytes\n"
      "%3: output, 50331648 bytes\n%4: output, 12288 bytes\n"
      "[a:4096,b:3072] %1[a*3072+b] f32 = VectorExp(%0.f32[a*3072+b])\n"
      "[a:4096,b:3072] %2[a] f64 = reduced  reduced = sum.f64{b} f64(%1.f32[a*3072+b])\n"
      "[a:4096,b:3072] %3[a*3072+b] f32 = (%1.f32[a*3072+b] / f32(%2.f64[a]))\n"
      "[a:4096,b:3072] %4[b] f32 = f32(reduced)  reduced = sum.f64{a} f64(%1.f32[a*3072+b])\n"
      "result 0 = %3 f32[4096,3072]:(3072,1)\nresult 1 = %4 f32[3072]:(1)\n"));
  EXPECT_EQ(count_of("kernel ", text), 2u) << text;
  EXPECT_NE(text.find("kernel map_sum_map_sum v0:128\n"), std::string::npos) << text;
  EXPECT_NE(text.find("scratch %1: 393216 bytes"), std::string::npos) << text;
}

/// A gradient summed for the bias, and its product with an input for the weight: as many rows each,
/// though the second reads more than what is made.
TEST(SplitReduce, SumsOfWhatIsMadeShareBlocks) {
  const std::string text = schedule_of(ir::parse(
      "argument 0 = %0 f32[4096,3072]:(3072,1)\nargument 1 = %1 f32[4096,3072]:(3072,1)\n"
      "%0: argument 0, 50331648 bytes\n%1: argument 1, 50331648 bytes\n"
      "%2: output, 50331648 bytes\n%3: output, 12288 bytes\n%4: output, 12288 bytes\n"
      "[a:4096,b:3072] %2[a*3072+b] f32 = VectorExp(%0.f32[a*3072+b])\n"
      "[a:4096,b:3072] %3[b] f32 = f32(reduced)  reduced = sum.f64{a} f64(%2.f32[a*3072+b])\n"
      "[a:4096,b:3072] %4[b] f32 = f32(reduced)  reduced = sum.f64{a} "
      "f64((%1.f32[a*3072+b] * %2.f32[a*3072+b]))\n"
      "result 0 = %3 f32[3072]:(1)\nresult 1 = %4 f32[3072]:(1)\n"
      "result 2 = %2 f32[4096,3072]:(3072,1)\n"));
  EXPECT_EQ(count_of("kernel map_sum v0:128", text), 1u) << text;
  EXPECT_EQ(count_of("v0:64", text), 0u) << text;
}

TEST(SplitReduce, ASumOverRowsInTheCacheStaysWhole) {
  std::string text = schedule_of_rows(128, 256);
  EXPECT_EQ(count_of("reduced = sum", text), 1u) << text;
}

/// The pieces of a sum over all of a tensor with these sizes and strides.
std::string pieces_of(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  int64_t reach = 1;
  std::string axes, names, at, extents, steps;
  for (size_t a = 0; a < sizes.size(); ++a) {
    const std::string name(1, static_cast<char>('a' + a));
    const std::string more = a == 0 ? "" : ",";
    reach += (sizes[a] - 1) * strides[a];
    axes += more + name + ":" + std::to_string(sizes[a]);
    at += (a == 0 ? "" : "+") + name + (strides[a] == 1 ? "" : "*" + std::to_string(strides[a]));
    names += more + name;
    extents += more + std::to_string(sizes[a]);
    steps += more + std::to_string(strides[a]);
  }
  return ir::print(split_reductions(
      ir::parse("argument 0 = %0 f32[" + extents + "]:(" + steps + ")\n%0: argument 0, " +
                std::to_string(4 * reach) + " bytes\n%1: output, 4 bytes\n[" + axes +
                "] %1[0] f32 = f32(reduced)  reduced = sum.f64{" + names + "} f64(%0.f32[" + at +
                "])\nresult 0 = %1 f32[1]:(1)\n"),
      Settings{}));
}

/// Parts have about as many points whatever the axes are, and there are enough for many threads.
TEST(SplitReduce, PartsAreOfPointsNotRows) {
  const std::string rows = pieces_of({49152, 81}, {82, 1});  // 96 rows are 7776 points
  EXPECT_NE(rows.find("[a:512,b:96,c:81] %2[a]"), std::string::npos) << rows;
  const std::string few = pieces_of({4, 500, 1000}, {500032, 1000, 1});
  EXPECT_NE(few.find("[a:4,b:100,c:5,d:1000] %2[a*100+b]"), std::string::npos) << few;
  const std::string long_rows = pieces_of({6, 655360}, {655400, 1});
  EXPECT_NE(long_rows.find("[a:6,b:80,c:8192] %2[a*80+b]"), std::string::npos) << long_rows;
}

TEST(SplitReduce, PartsLieTogetherInMemory) {
  // The second axis is the fastest, as of a transposed matrix.
  const std::string text = pieces_of({4, 256, 512}, {131072, 1, 256});
  EXPECT_NE(text.find("[a:4,b:256,c:16,d:32] %2[a*16+c]"), std::string::npos) << text;
}

/// Of few columns there are few tiles, unless rows are cut into blocks.
TEST(SplitReduce, NarrowRowsAreCutToo) {
  const std::string text = schedule_of_rows(65536, 64);
  EXPECT_NE(text.find("v0:128"), std::string::npos) << text;
  EXPECT_NE(text.find("serial v2:512"), std::string::npos) << text;
}

TEST(SplitReduce, AShortSumStaysWhole) {
  std::string text = schedule_of_sum(1000);
  EXPECT_EQ(count_of("kernel ", text), 1u) << text;
}

}  // namespace
}  // namespace graft::passes
