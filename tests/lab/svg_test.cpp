#include "lab/report/svg.h"

#include <gtest/gtest.h>

namespace graft::lab::svg {
namespace {

TEST(Svg, EscapesWhatMarkupReads) {
  EXPECT_EQ(escape("a<b> & \"c\" 'd'"), "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
  EXPECT_EQ(escape("µs\n"), "µs\n");
  EXPECT_EQ(escape(std::string("\0\x1b", 2)), "\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(Svg, LinearAxisHasRoundEnds) {
  const Axis axis = Axis::linear(0.3, 9.7);
  EXPECT_EQ(axis.lo(), 0);
  EXPECT_EQ(axis.hi(), 10);
  EXPECT_DOUBLE_EQ(axis.at(5), 0.5);
  EXPECT_EQ(axis.ticks(6), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  const Axis point = Axis::linear(3, 3);  // one value is no reason to divide by nothing
  EXPECT_GE(point.at(3), 0);
  EXPECT_LE(point.at(3), 1);
}

TEST(Svg, LogAxisHasAsManyTicksAsFit) {
  const Axis decades = Axis::logarithmic(1, 1000);
  EXPECT_LT(decades.at(1), 0.1);
  EXPECT_GT(decades.at(1000), 0.9);
  EXPECT_NEAR(decades.at(10) - decades.at(1), decades.at(100) - decades.at(10), 1e-12);
  EXPECT_EQ(decades.ticks(4), (std::vector<double>{1, 10, 100, 1000}));
  EXPECT_EQ(decades.ticks(7), (std::vector<double>{1, 3, 10, 30, 100, 300, 1000}));
  EXPECT_EQ(Axis::logarithmic(1, 2).ticks(3), (std::vector<double>{1, 1.5, 2}));
  for (const double hi : {1.001, 1.7, 4.0, 33.0, 1e4, 1e30}) {
    for (int most = 1; most < 8; ++most) {
      const auto ticks = Axis::logarithmic(1, hi).ticks(most);
      EXPECT_LE(ticks.size(), static_cast<size_t>(most)) << hi;
      EXPECT_FALSE(most >= 4 && ticks.empty()) << hi << ' ' << most;
    }
  }
}

TEST(Svg, TicksAreBrief) {
  EXPECT_EQ(plain(20), "20");
  EXPECT_EQ(plain(0.5), "0.5");
  EXPECT_EQ(plain(0.1 + 0.2), "0.3");
  EXPECT_EQ(plain(1500), "1500");
}

TEST(Svg, LongTextsAreShortenedByCharacters) {
  EXPECT_EQ(shortened("graft", 5), "graft");
  EXPECT_EQ(shortened("µµµµµµ", 4), "µµµ…");
}

TEST(Svg, ChartDrawsWhereValuesLie) {
  Chart chart(Axis::linear(0, 10), Axis::linear(0, 4, 4), 100);
  EXPECT_DOUBLE_EQ(chart.y_at(4), 0);
  EXPECT_DOUBLE_EQ(chart.y_at(1), 75);
  chart.segment(5, 10, 10, 20, "a");
  chart.marker(2.5, 50, 1, "<hint>");
  chart.curve({{0, 0}, {10, 4}}, "b");
  const std::string html = chart.html("what \"it\" shows");
  EXPECT_NE(html.find("x1=\"50%\" y1=\"10\" x2=\"100%\" y2=\"20\" class=\"a\""), std::string::npos);
  EXPECT_NE(html.find("x=\"25%\" y=\"50\""), std::string::npos);
  EXPECT_NE(html.find("<title>&lt;hint&gt;</title>"), std::string::npos);
  EXPECT_NE(html.find("points=\"0,100 1000,0 \""), std::string::npos) << html;
  EXPECT_NE(html.find("aria-label=\"what &quot;it&quot; shows\""), std::string::npos);
}

}  // namespace
}  // namespace graft::lab::svg
