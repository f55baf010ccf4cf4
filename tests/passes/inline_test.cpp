// Inline: readers that compute what a producer would have stored, and those that must not.
#include "passes/inline.h"

#include <gtest/gtest.h>

#include "build.h"
#include "ir/parse.h"

namespace graft::passes {
namespace {

/// What inline makes of a program, and what dead stores leave of that.
std::string inlined(const std::string& text) {
  const ir::Program program = ir::parse(text);
  EXPECT_EQ(ir::verify(program), "");
  return schedule_of(program, {"fuse"});
}

TEST(Inline, ACheapProducerIsComputedWhereItIsRead) {
  EXPECT_EQ(inlined(R"(
              argument 0 = %0 f32[64]:(1)
              %0: argument 0, 256 bytes
              %1: temporary, 256 bytes
              %2: output, 256 bytes
              [a:64] %1[a] f32 = (%0[a] * 2)
              [a:64] %2[a] f32 = (%1[a] + 3)
              result 0 = %2 f32[64]:(1)
            )"),
            "kernel map\n"
            "  vector v0:64\n"
            "    %2[v0] f32 = ((%0[v0] * 2) + 3)\n"
            "result 0 = %2 f32[64]:(1)\n");
}

/// Square roots over (64, 32), of which `place`, with an index from data, picks 64.
std::string picked(const std::string& place) {
  const std::string text = R"(
    argument 0 = %0 f32[64,32]:(1,64)
    argument 1 = %1 i64[64]:(1)
    %0: argument 0, 8192 bytes
    %1: argument 1, 512 bytes
    %2: temporary, 8192 bytes
    %3: output, 256 bytes
    [a:64,b:32] %2[a*32+b] f32 = sqrt((%0[a+b*64] * 2))
    [a:64] %3[a] f32 = %2[)" +
                           place +
                           R"(]
    result 0 = %3 f32[64]:(1)
  )";
  return inlined(text.c_str());
}

/// Of a value per row that data picks, only those are computed.
TEST(Inline, WhatDataPicksIsComputedWhereItIsRead) {
  std::string text = picked("a*32+(%1[a]:32)");
  EXPECT_NE(text.find("%3[v0] f32 = sqrt((%0[v0+(%1[v0]:32)*64] * 2))"), std::string::npos) << text;
}

/// An index that runs over several axes of the producer says nothing of where on each.
TEST(Inline, AnIndexOverSeveralAxesReadsWhatWasStored) {
  std::string text = picked("(%1[a]:2048)");
  EXPECT_NE(text.find("%3[v0] f32 = %2[(%1[v0]:2048)]"), std::string::npos) << text;
}

/// Nor does one of which nothing is known.
TEST(Inline, AnIndexWithoutARangeReadsWhatWasStored) {
  std::string text = picked("a*32+(%1[a])");
  EXPECT_NE(text.find("%3[v0] f32 = %2[v0*32+(%1[v0])]"), std::string::npos) << text;
}

/// Readers of different parts compute nothing twice, however dear the value; readers of the same
/// part would.
TEST(Inline, PartsThatAreReadOnceEachAreComputedWhereTheyAreRead) {
  auto program = [](const std::string& points, const std::string& of) {
    return inlined(R"(
      argument 0 = %0 f32[4096,2]:(2,1)
      %0: argument 0, 32768 bytes
      %1: temporary, 32768 bytes
      %2: output, 32768 bytes
      [a:8192] %1[a] f32 = ((sqrt(%0[a]) / (%0[a] + 1)) * sqrt((%0[a] * %0[a])))
      [a:)" + points +
                   "] %2[a] f32 = (" + of + R"()
      result 0 = %2 f32[)" +
                   points + R"(]:(1)
    )");
  };
  std::string text = program("4096", "%1[a*2] - %1[a*2+1]");
  EXPECT_EQ(text.find("%1["), std::string::npos) << text;
  text = program("8191", "%1[a] - %1[a+1]");
  EXPECT_NE(text.find("%1["), std::string::npos) << text;
  // Storing would compute as many, half of which nobody reads.
  text = program("4095", "%1[a*2] - %1[a*2+2]");
  EXPECT_EQ(text.find("%1["), std::string::npos) << text;
}

/// An operator that runs in order, as index_add, computes what it adds; not what its own steps
/// change.
TEST(Inline, StepsComputeWhatTheyTake) {
  std::string text = inlined(R"(
    argument 0 = %0 f32[4096,256]:(256,1)
    argument 1 = %1 i64[4096]:(1)
    %0: argument 0, 4194304 bytes
    %1: argument 1, 32768 bytes
    %2: temporary, 4194304 bytes
    %3: output, 16384 bytes
    [a:4096,b:256] %2[a*256+b] f32 = (%0[a*256+b] * 2)
    [a:16,b:256] %3[a*256+b] f32 = $0
    repeat 4096 in order
      [a:4096,b:256] %3[b+(%1[a]:16)*256] f32 = (%3[b+(%1[a]:16)*256] + %2[a*256+b])
    result 0 = %3 f32[16,256]:(256,1)
  )");
  EXPECT_NE(text.find("kernel map v2:8\n"
                      "  step v1:4096\n"
                      "    vector v0:32\n"
                      "      %3[v2*32+v0+(%1[v1]:16)*256] f32 = (%3[v2*32+v0+(%1[v1]:16)*256] + "
                      "(%0[v1*256+v2*32+v0] * 2))  ahead %0 by v1+8\n"),
            std::string::npos)
      << text;
}

/// Ones counted in 64 places, which are computed of %0.
std::string counted(const std::string& place) {
  std::string text = R"(
    argument 0 = %0 f32[4096]:(1)
    %0: argument 0, 16384 bytes
    %1: temporary, 32768 bytes
    %2: output, 256 bytes
    [a:64] %2[a] f32 = $0
    [a:4096] %1[a] i64 = PLACE
    repeat 4096 in order
      [a:4096] %2[(%1[a]:64)] f32 = (%2[(%1[a]:64)] + $1)
    result 0 = %2 f32[64]:(1)
  )";
  text.replace(text.find("PLACE"), 5, place);
  return inlined(text);
}

/// Steps of single numbers run one by one on one thread: what a vector loop computes faster stays
/// there.
TEST(Inline, SingleStepsReadWhatTakesLong) {
  const std::string place = "i64(floor(((%0.f32[a] / $3) * $63)))";
  EXPECT_NE(counted(place).find("(%1["), std::string::npos) << counted(place);
  EXPECT_EQ(counted("i64(%0.f32[a])").find("(%1["), std::string::npos) << counted("i64(%0.f32[a])");
}

TEST(Inline, ReaderOfAnOverwrittenInputIsNotMovedPastTheWrite) {
  std::string text = inlined(R"(
    argument 0 = %0 f32[64]:(1)
    %0: argument 0, 256 bytes
    %1: temporary, 256 bytes
    %2: output, 256 bytes
    [a:64] %1[a] f32 = (%0[a] * 2)
    [a:64] %0[a] f32 = (%0[a] + 1)
    [a:64] %2[a] f32 = (%1[a] + 3)
    result 0 = %2 f32[64]:(1)
  )");
  EXPECT_NE(text.find("%1[v0] f32 = (%0[v0] * 2)"), std::string::npos) << text;
  EXPECT_NE(text.find("%2[v0] f32 = (%1[v0] + 3)"), std::string::npos) << text;
}

/// `stack` of two along the last axis, as complex numbers are made: nothing is stored between.
TEST(Inline, PairsAreComputedWhereTheyAreRead) {
  EXPECT_EQ(inlined(R"(
              argument 0 = %0 f32[64]:(1)
              argument 1 = %1 f32[64]:(1)
              %0: argument 0, 256 bytes
              %1: argument 1, 256 bytes
              %2: temporary, 512 bytes
              %3: output, 512 bytes
              [a:64] %2[a*2] f32 = (%0[a] * %1[a])
              [a:64] %2[a*2+1] f32 = (%0[a] + %1[a])
              [a:64,b:2] %3[a*2+b] f32 = (%2[a*2+b] * 3)
              result 0 = %3 f32[64,2]:(2,1)
            )"),
            "kernel map\n"
            "  vector v0:64\n"
            "    %3[v0*2] f32 = ((%0[v0] * %1[v0]) * 3)\n"
            "kernel map\n"
            "  vector v0:64\n"
            "    %3[v0*2+1] f32 = ((%0[v0] + %1[v0]) * 3)\n"
            "result 0 = %3 f32[64,2]:(2,1)\n");
}

TEST(Inline, PlanesOfPixelsAreComputedWhereTheyAreRead) {
  EXPECT_EQ(inlined(R"(
              argument 0 = %0 f32[3,64]:(64,1)
              %0: argument 0, 768 bytes
              %1: temporary, 768 bytes
              %2: output, 192 bytes
              [a:64] %1[a*3] f32 = (%0[a] + %0[a+64])
              [a:64] %1[a*3+1] f32 = (%0[a] - %0[a+128])
              [a:64] %1[a*3+2] f32 = (%0[a] * %0[a+64])
              [a:192] %2[a] i8 = i8(%1.f32[a])
              result 0 = %2 i8[64,3]:(3,1)
            )"),
            "kernel map\n"
            "  vector v0:64\n"
            "    %2[v0*3] i8 = i8((%0.f32[v0] + %0[v0+64]))\n"
            "kernel map\n"
            "  vector v0:64\n"
            "    %2[v0*3+1] i8 = i8((%0.f32[v0] - %0[v0+128]))\n"
            "kernel map\n"
            "  vector v0:64\n"
            "    %2[v0*3+2] i8 = i8((%0.f32[v0] * %0[v0+64]))\n"
            "result 0 = %2 i8[64,3]:(3,1)\n");
}

/// A reader of three parts has three times the points of each, yet computes none of them twice.
TEST(Inline, ManyPartsAreComputedWhereTheyAreRead) {
  EXPECT_EQ(inlined(R"(
              argument 0 = %0 f32[8,16]:(16,1)
              %0: argument 0, 512 bytes
              %1: temporary, 1536 bytes
              %2: output, 1536 bytes
              [a:8,b:16] %1[a*48+b] f32 = (sqrt((%0[a*16+b] * 2)) + 1)
              [a:8,b:16] %1[a*48+b+16] f32 = (sqrt((%0[a*16+b] * 3)) + 2)
              [a:8,b:16] %1[a*48+b+32] f32 = (sqrt((%0[a*16+b] * 4)) + 3)
              [a:8,b:48] %2[a*48+b] f32 = (%1[a*48+b] * 5)
              result 0 = %2 f32[8,48]:(48,1)
            )"),
            "kernel map v0:8\n"
            "  vector v1:16\n"
            "    %2[v0*48+v1] f32 = ((sqrt((%0[v0*16+v1] * 2)) + 1) * 5)\n"
            "kernel map v0:8\n"
            "  vector v1:16\n"
            "    %2[v0*48+v1+16] f32 = ((sqrt((%0[v0*16+v1] * 3)) + 2) * 5)\n"
            "kernel map v0:8\n"
            "  vector v1:16\n"
            "    %2[v0*48+v1+32] f32 = ((sqrt((%0[v0*16+v1] * 4)) + 3) * 5)\n"
            "result 0 = %2 f32[8,48]:(48,1)\n");
}

/// Columns of eight: split at them, their reader would have no vectors.
TEST(Inline, PartsFarApartAreStored) {
  std::string text = inlined(R"(
    argument 0 = %0 f32[64]:(1)
    %0: argument 0, 256 bytes
    %1: temporary, 2048 bytes
    %2: output, 2048 bytes
    [a:64,b:8] %1[a*8+b] f32 = 0
    [a:64] %1[a*8+3] f32 = (sqrt(%0[a]) + 1)
    [a:64,b:8] %2[a*8+b] f32 = (%1[a*8+b] * 3)
    result 0 = %2 f32[64,8]:(8,1)
  )");
  EXPECT_NE(text.find("%2[v0] f32 = (%1[v0] * 3)"), std::string::npos) << text;
}

/// What rolls an array along either axis, both ways, stores rows and columns alone: the sum of four
/// neighbours is one statement for each border, and nothing is stored between.
TEST(Inline, RolledArrays) {
  std::string text = inlined(R"(
    argument 0 = %0 f32[64,64]:(64,1)
    %0: argument 0, 16384 bytes
    %1: temporary, 16384 bytes
    %2: temporary, 16384 bytes
    %3: output, 16384 bytes
    [a:64,b:63] %1[a*64+b+1] f32 = %0[a*64+b]
    [a:64,b:1] %1[a*64] f32 = %0[a*64+63]
    [a:63,b:64] %2[a*64+b+64] f32 = %0[a*64+b]
    [a:1,b:64] %2[b] f32 = %0[b+4032]
    [a:64,b:64] %3[a*64+b] f32 = (%1[a*64+b] + %2[a*64+b])
    result 0 = %3 f32[64,64]:(64,1)
  )");
  EXPECT_EQ(text.find("%1["), std::string::npos) << text;
  EXPECT_EQ(text.find("%2["), std::string::npos) << text;
}

}  // namespace
}  // namespace graft::passes
