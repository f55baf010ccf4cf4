#include "runtime/family/formula.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <functional>

#include "runtime/family/pattern.h"

namespace graft::runtime {
namespace {

using ir::NumberKind;

std::vector<Point> line(std::initializer_list<int64_t> sizes) {
  std::vector<Point> points;
  for (int64_t s : sizes) points.push_back({s});
  return points;
}

std::vector<int64_t> values(const std::vector<Point>& points,
                            const std::function<int64_t(const Point&)>& of) {
  std::vector<int64_t> all;
  for (const Point& point : points) all.push_back(of(point));
  return all;
}

std::string found(const std::vector<Point>& points, const std::vector<int64_t>& values,
                  NumberKind kind = NumberKind::Exact, std::span<const Formula> extents = {}) {
  std::vector<std::string> names;
  for (size_t k = 0; k < points[0].size(); ++k) names.push_back(std::string(1, char('s' + k)));
  auto formula = explain(points, values, kind, extents);
  return formula ? formula->text(names) : "none";
}

TEST(Formulas, TheSimplestThatGivesEachValue) {
  const auto few = line({5, 9, 17});
  EXPECT_EQ(found(few, {7, 7, 7}), "7");
  EXPECT_EQ(found(few, {320, 576, 1088}), "64*s");
  EXPECT_EQ(found(few, {6, 10, 18}), "s + 1");
  EXPECT_EQ(found(few, {25, 81, 289}), "s*s");
  EXPECT_EQ(found(few, {-5, -9, -17}), "-s");
  EXPECT_EQ(found(few, {5, 9, 18}), "none");
  EXPECT_EQ(found(line({4, 8, 16}), {2, 4, 8}), "(s)/2");
  EXPECT_EQ(found(line({4, 7, 12, 18, 21}), {10, 28, 78, 171, 231}), "(s + s*s)/2");
  const std::vector<Point> two = {{2, 5}, {3, 7}, {4, 11}, {6, 6}};
  EXPECT_EQ(found(two, values(two, [](const Point& p) { return 64 * p[0] * p[1]; })), "64*s*t");
  EXPECT_EQ(found(two, values(two, [](const Point& p) { return p[1] - 2; })), "t - 2");
}

TEST(Formulas, WhatPointsDoNotSettleIsNone) {
  // Two points lie on a line whatever they are; a step that one point shows could be anything.
  EXPECT_EQ(found(line({5, 9}), {6, 11}), "none");
  EXPECT_EQ(found(line({5, 9}), {10, 18}), "2*s");
  EXPECT_EQ(found(line({5, 9, 13, 14, 30}), {4, 4, 4, 4, 5}), "none");
}

TEST(Formulas, Blocks) {
  std::vector<Formula> extents(1);
  extents[0].terms = {{1, {0, -1, -1}}};
  const auto points = line({258, 290, 301, 333, 349, 350, 374, 390, 397, 410, 466, 514});
  auto in = [&](auto of) { return found(points, values(points, of), NumberKind::Exact, extents); };
  EXPECT_EQ(in([](const Point& p) { return (p[0] - 1) / 64; }), "floor((s - 1)/64)");
  EXPECT_EQ(in([](const Point& p) { return (p[0] - 1) / 32 * 32; }), "32*floor((s - 1)/32)");
  EXPECT_EQ(in([](const Point& p) { return (p[0] - 1) % 64 + 1; }), "s - 64*floor((s - 1)/64)");
  EXPECT_EQ(in([](const Point& p) { return (p[0] - 1) / 64 * p[0]; }), "s*floor((s - 1)/64)");
  EXPECT_EQ(in([](const Point& p) { return (p[0] - 1) / 64 == 4 ? 0 : 1; }), "none");
}

TEST(Formulas, Doubles) {
  const auto points = line({5, 9, 17});
  auto bits = [&](auto of) {
    return values(points, [&](const Point& p) {
      return std::bit_cast<int64_t>(static_cast<double>(of(static_cast<double>(p[0]))));
    });
  };
  auto real = [&](auto of) { return found(points, bits(of), NumberKind::Real); };
  EXPECT_EQ(real([](double s) { return 4 * s; }), "4*s");
  EXPECT_EQ(real([](double s) { return 1 / s; }), "1/(s)");
  EXPECT_EQ(real([](double s) { return static_cast<float>(1 / s); }), "1/(s)");
  EXPECT_EQ(real([](double s) { return 1 / std::sqrt(s); }), "1/sqrt(s)");
  EXPECT_EQ(real([](double s) { return std::exp(s); }), "none");
  const auto formula = explain(points, bits([](double s) { return 1 / s; }), NumberKind::Real);
  ASSERT_TRUE(formula);
  EXPECT_EQ(std::bit_cast<double>(*formula->at(Point{100})), 0.01);
}

TEST(Formulas, NothingOverflows) {
  const auto huge = line({int64_t{1} << 30, (int64_t{1} << 30) + 7, (int64_t{1} << 31) - 1});
  EXPECT_EQ(found(huge, {int64_t{1} << 32, (int64_t{1} << 32) + 28, (int64_t{1} << 33) - 4}),
            "4*s");
  Formula cube;
  cube.terms = {{int64_t{1} << 40, {0, 0, 0}}};
  EXPECT_EQ(cube.at(Point{(int64_t{1} << 31) - 1}), std::nullopt);
}

TEST(Formula, TogetherAsAlone) {
  const std::array<int8_t, 3> s = {0, -1, -1}, t = {1, -1, -1}, both = {0, 1, -1};
  Formulas all;
  std::vector<Formula> each;
  for (int64_t factor :
       {int64_t{3}, int64_t{-1}, int64_t{1} << 24, -(int64_t{1} << 24), int64_t{1} << 25})
    for (int64_t constant : {int64_t{0}, int64_t{-7}, int64_t{1} << 55, -(int64_t{1} << 55)})
      for (int64_t divisor : {1, 2})
        for (const auto& of : {s, t, both})
          each.push_back({.terms = {{factor, of}}, .constant = constant, .divisor = divisor});
  for (size_t k = 0; k < each.size(); ++k) EXPECT_EQ(all.add(each[k]), k);
  constexpr int64_t kMost = (int64_t{1} << 31) - 1;
  for (const Point& point : {Point{2, 3}, Point{17, 2}, Point{kMost, 4}, Point{kMost, kMost}}) {
    Formulas::Values values;
    bool fits = true;
    for (const Formula& formula : each) fits = fits && formula.at(point);
    EXPECT_EQ(all.at(point, values), fits);
    for (size_t k = 0; k < each.size(); ++k) {
      Formulas one;
      one.add(each[k]);
      Formulas::Values value;
      const auto alone = each[k].at(point);
      ASSERT_EQ(one.at(point, value), alone.has_value()) << k;
      EXPECT_EQ(alone ? value[0] : 0, alone.value_or(0)) << k;
    }
  }
}

}  // namespace
}  // namespace graft::runtime
