// Programs as text: what is read, and how what cannot be read is refused.
#include "ir/parse.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "ir/text.h"

namespace graft::ir {
namespace {

TEST(Parse, ReadsWhatIsPrinted) {
  const std::string text =
      "argument 0 = %0 f32[4,6]:(6,1)  bumped\n"
      "argument 1 = undefined\n"
      "argument 2 = %2 i64[]:()@8\n"
      "captured 0 = %1 bf16[6]:(1)\n"
      "captured 1 = %1 bf16[3]:(2)@2  bumped\n"
      "%0: argument 0, 96 bytes\n"
      "%1: captured 0, 12 bytes\n"
      "%2: argument 2, 16 bytes\n"
      "%4: temporary, 1 bytes\n"
      "%5: output, 48 bytes, made by extern\n"
      "%7: temporary, 96 bytes\n"
      "[a:4,b:6] %4[0] bool = reduced  reduced = or.bool{a,b} ((%0.f32[a*6+b] < -0.5) | "
      "(%0.f32[a*6+b] == inf))\n"
      "abort if %4\n"
      "[a:4,b:6] %7[a*6+b] f32 = select((b < 3), (t2 + $0.1), (t2 - VectorExp(t2))); "
      "t1 = f32(%1.bf16[b]); t2 = (t1 * (t1 + %0[a*6-b+5]))\n"
      "[a:4] %7[a*6] f32 = f32((reduced / 6))  reduced = sum.f64{} f64(%0.f32[a*6])\n"
      "[a:4,b:6] %0[a*6+b] f32 = reduced  scan sum.f32{b} %7[a*6+b]\n"
      "[a:2] %0[(%2[1]:3)*6-(select((a < 0), (a + 4), a))*2+1] f32 = "
      "select((1 < f64(a)), bits.f32(7:i32), 0)\n"
      "%5 f32[4,3]:(3,1), %7 f32[]:() = aten::addmm.out(%0 f32[4,6]:(6,1)@8, undefined, "
      "tensors[%7 f32[6,3]:(3,1), undefined], optionals[], None, true, 3, 3.0, 1e-05, "
      "\"a\\\\b\\\"\", "
      "[1, [false], -2.5], number(0.1:f32), tensor(7:i64), opaque \"Generator\") writes %5, %7\n"
      "aten::nothing()\n"
      "repeat 4 in order\n"
      "  [a:4] %7[(%2[a]:3)] f32 = (%7[(%2[a]:3)] + 1)\n"
      "repeat 3\n"
      "  [a:3,b:6-a] %7[a+b*6] f32 = neg(%7[a*7+b])\n"
      "  [a:3,b:1+2a] %7[b] f32 = max(%7[b], nan)\n"
      "[a:4] %4[0] bool = ~((%2[1] != ~(a)))\n"
      "result 0 = %5 f32[4,3]:(3,1)\n"
      "result 1 = argument 0\n"
      "result 2 = captured 1\n"
      "result 3 = result 0\n"
      "result 4 = undefined\n";
  EXPECT_EQ(print(parse(text)), text);
}

TEST(Parse, GivesTypesThatTheTextDoesNotSay) {
  Program p = parse(R"(
    %0: temporary, 64 bytes
    [a:4] %0[a] f32 = f32((%0.f64[a] * 2))
  )");
  const auto& s = std::get<Statement>(p.items.at(0));
  ASSERT_EQ(s.expr.nodes.size(), 4U);
  EXPECT_EQ(s.expr.nodes[1].op, Op::Const);
  EXPECT_EQ(s.expr.nodes[1].type, ScalarType::Double);
  EXPECT_EQ(s.loads.at(0).dtype, ScalarType::Double);
  EXPECT_EQ(s.store.dtype, ScalarType::Float);
  EXPECT_EQ(s.value, 3);
  EXPECT_EQ(verify(p), "");
}

TEST(Parse, ReadsAProgramWrittenByHand) {
  Program p = parse("\n%3:temporary,64 bytes\n\n  [ a : 4 ]%3[ 1+a*2 ]i32=( %3[a] << 1 )  ");
  EXPECT_EQ(print(p), "%3: temporary, 64 bytes\n[a:4] %3[a*2+1] i32 = (%3[a] << 1)\n");
}

TEST(Parse, NumbersComeBackBitByBit) {
  auto bits = [](double value) { return std::bit_cast<int64_t>(value); };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (double value : {0.0, -0.0, 0.1, 1e300, 5e-324, -1.0 / 3, kInfinity, -kInfinity, 1e22})
    EXPECT_EQ(number_of(number_text(bits(value), ScalarType::Double), ScalarType::Double),
              bits(value))
        << value;
  for (float value : {0.1F, 1e-45F, 3.4e38F, -1.0F / 3})
    EXPECT_EQ(number_of(number_text(bits(value), ScalarType::Float), ScalarType::Float),
              bits(value))
        << value;
  EXPECT_EQ(number_text(bits(0.1F), ScalarType::Float), "0.1");
  for (auto nan :
       {0x7ff8000000000000, 0x7ff8000000000001, static_cast<int64_t>(0xfff8000000000000)})
    EXPECT_EQ(number_of(number_text(nan, ScalarType::Float), ScalarType::Float), nan);
  for (int64_t value : {INT64_MIN, INT64_MAX, int64_t{1} << 53 | 1})
    EXPECT_EQ(number_of(number_text(value, ScalarType::Long), ScalarType::Long), value);
}

/// Equal nodes, loads and scalars are one in the text, however the program was built.
TEST(Parse, TextDoesNotDependOnHowAProgramWasBuilt) {
  Statement s;
  s.axes = {4};
  s.store = {1, ScalarType::Float, 0, {1}, {}};
  s.loads = {{0, ScalarType::Float, 0, {1}, {}}, {0, ScalarType::Float, 0, {1}, {}}};
  s.scalars = {std::bit_cast<uint64_t>(2.0), std::bit_cast<uint64_t>(2.0)};
  auto f = ScalarType::Float;
  s.expr.nodes = {{Op::Load, f, {-1, -1, -1}, 0},   {Op::Load, f, {-1, -1, -1}, 1},
                  {Op::Scalar, f, {-1, -1, -1}, 0}, {Op::Scalar, f, {-1, -1, -1}, 1},
                  {Op::Add, f, {0, 2, -1}, 0},      {Op::Add, f, {1, 3, -1}, 0},
                  {Op::Neg, f, {4, -1, -1}, 0},  // nobody reads it
                  {Op::Mul, f, {4, 5, -1}, 0}};
  s.value = 7;
  EXPECT_EQ(print(s), "[a:4] %1[a] f32 = (t1 * t1); t1 = (%0.f32[a] + $2)");
}

TEST(Parse, StoragesThatNoTextNamesAreLeftOut) {
  Program p = parse("%0: temporary, 64 bytes\n%1: temporary, 64 bytes\n[a:4] %0[a] f32 = %1[a]");
  auto& s = std::get<Statement>(p.items.at(0));
  s.loads.push_back({5, ScalarType::Float, 0, {1}, {}});  // no node reads it
  p.storages.resize(6);
  EXPECT_EQ(print(p),
            "%0: temporary, 64 bytes\n%1: temporary, 64 bytes\n[a:4] %0[a] f32 = %1[a]\n");
}

struct Refused {
  const char* text;
  int line, column;
  const char* what;
};

TEST(Parse, SaysWhereAndWhatWasExpected) {
  const std::string head = "%0: temporary, 64 bytes\n";
  for (const Refused& refused : {
           Refused{"[a:4] %0[a f32 = 1", 2, 12, "expected \"+\", but found \"f32\""},
           Refused{"[a:4] %0[b] f32 = 1", 2, 10, "the statement has no axis \"b\""},
           Refused{"[b:4] %0[b] f32 = 1", 2, 2, "expected \"a\", but found \"b\""},
           Refused{"[a:4-a] %0[a] f32 = 1", 2, 5, "expected \",\", but found \"-\""},
           Refused{"[a:4] %0[a] f31 = 1", 2, 13,
                   "expected a dtype, such as f32, but found \"f31\""},
           Refused{"[a:4] %0[a] f32 = (1 ? 2)", 2, 22,
                   "expected an operator, such as +, but found \"?\""},
           Refused{"[a:4] %0[a] f32 = exp(1)", 2, 19,
                   "no operator, dtype or routine is called \"exp\""},
           Refused{"[a:4] %0[a] f32 = f32(%0[a])", 2, 24,
                   "nothing tells the type here; write it, as in 2:f32 or %0.f32[a]"},
           Refused{"[a:4] %0[a] f32 = %0.f64[a]", 2, 20, "expected f32, but this is f64; cast it"},
           Refused{"[a:4] %0[a] i32 = 1.5", 2, 19, "\"1.5\" is no number of type i32"},
           Refused{"[a:4] %0[a] f32 = t1", 2, 19, "nothing is called \"t1\""},
           Refused{"[a:4] %0[a] f32 = t1; t1 = neg(t1)", 2, 32, "nothing is called \"t1\""},
           Refused{"[a:4] %0[a] f32 = reduced", 2, 19, "the statement has no reduction"},
           Refused{"[a:4] %0[a] f32 = 1 2", 2, 21,
                   "expected \"reduced =\", \"scan\", \"after\", \"; name =\" or the end of the "
                   "line, but "
                   "found \"2\""},
           Refused{"[a:4] %1[a] f32 = 1", 2, 1,
                   "storage %1 is not declared, as by \"%1: temporary, 64 bytes\""},
           Refused{"abort if %7", 2, 11,
                   "storage %7 is not declared, as by \"%7: temporary, 64 bytes\""},
           Refused{"%0: output, 4 bytes", 2, 2, "storage %0 is declared twice"},
           Refused{"%1: outpt, 4 bytes", 2, 5,
                   "expected argument, captured, output or temporary, but found \"outpt\""},
           Refused{"%1: output, 4", 2, 14, "expected \"bytes\", but found the end of the text"},
           Refused{"%99999999: output, 4 bytes", 2, 2,
                   "expected a storage's number from 0 to 1048576, but found 99999999"},
           Refused{"[a:99999999999999999999] %0[a] f32 = 1", 2, 4,
                   "the number needs more than 64 bits"},
           Refused{"argument 1 = undefined", 2, 10, "expected number 0: they come in order"},
           Refused{"result 0 = argument 0", 2, 21, "the program has no argument 0 before this"},
           Refused{"result 0 = %0 f32[2]:(1,2)", 2, 23,
                   "expected 1 strides, one per size, but found 2"},
           Refused{"%0 f32[]:() = aten::f(", 2, 23,
                   "expected a number, but found the end of the text"},
           Refused{"aten::f(\"x", 2, 11,
                   "expected the text's closing quote, but found the end of the text"},
           Refused{
               "!", 2, 1,
               "expected an argument, storage, statement, call, abort, repeat or result, but found "
               "\"!\""},
       }) {
    try {
      parse(head + refused.text);
      ADD_FAILURE() << refused.text << " was read";
    } catch (const ParseError& error) {
      EXPECT_EQ(std::string(error.what()), "line " + std::to_string(refused.line) + ", column " +
                                               std::to_string(refused.column) + ": " + refused.what)
          << refused.text;
      EXPECT_EQ(error.line, refused.line);
      EXPECT_EQ(error.column, refused.column);
    }
  }
}

TEST(Parse, RefusesWhatNestsTooDeeply) {
  std::string text = "%0: temporary, 4 bytes\n[a:1] %0[a] f32 = ";
  for (int k = 0; k < 100000; ++k) text += "neg(";
  EXPECT_THROW(parse(text), ParseError);
  EXPECT_THROW(parse("aten::f(" + std::string(100000, '[')), ParseError);
}

}  // namespace
}  // namespace graft::ir
