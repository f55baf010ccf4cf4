#include "lab/table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <sstream>

#include "lab/words.h"

namespace graft::lab {
namespace {

TEST(Table, PadsByDisplayWidth) {
  Table table({{"name"}, {"µs", Align::Right}, {"note"}});
  table.row({"λ", "1.5", "ok"});
  table.row({"日本", "12.25"});
  table.rule();
  table.row({"all", "13.75", ""});
  std::ostringstream out;
  table.print(out);
  EXPECT_EQ(out.str(),
            "name     µs  note\n"
            "────  ─────  ────\n"
            "λ       1.5  ok\n"
            "日本  12.25\n"
            "────  ─────  ────\n"
            "all   13.75  \n");
}

TEST(Table, ColourLeavesWidthsAlone) {
  Table table({{"a", Align::Right}, {"b"}});
  table.row({Cell("1", Style::Good), "x"});
  std::ostringstream out;
  table.print(out, /*colour=*/true);
  EXPECT_NE(out.str().find("\x1b[32m1\x1b[0m  x\n"), std::string::npos) << out.str();
}

TEST(Table, DisplayWidth) {
  EXPECT_EQ(display_width("abc"), 3u);
  EXPECT_EQ(display_width("µ─×"), 3u);
  EXPECT_EQ(display_width("e\u0301"), 1u);  // a combining accent
  EXPECT_EQ(display_width("日本"), 4u);
  EXPECT_EQ(display_width("\xff\xe6"), 2u);  // malformed: one character per byte
}

TEST(Table, NumbersHaveThreeDigits) {
  EXPECT_EQ(number(0.0081234), "0.00812");
  EXPECT_EQ(number(5.7249), "5.72");
  EXPECT_EQ(number(9.996), "10.0");
  EXPECT_EQ(number(1234.5), "1234");
  EXPECT_EQ(number(0), "0.00");
  EXPECT_EQ(number(-42.25), "-42.2");
  EXPECT_EQ(number(std::nan("")), "-");
  EXPECT_EQ(number(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(number(1e-30), "1.00e-30");
}

TEST(Table, Bytes) {
  EXPECT_EQ(bytes_text(512), "512 B");
  EXPECT_EQ(bytes_text(1536), "1.50 KiB");
  EXPECT_EQ(bytes_text(48 * 1024), "48.0 KiB");
  EXPECT_EQ(bytes_text(1023.0 * 1024), "1023 KiB");
}

TEST(Table, NoColourWithoutATerminal) {
  EXPECT_FALSE(colour_wanted(-1));
}

}  // namespace
}  // namespace graft::lab
