// Mode::MaxAutotune: other schedules run beside the estimates' own, on data of their own.
#include <gtest/gtest.h>

#include "helpers.h"

namespace graft {
namespace {

using test::Tensors;

Options tuned() {
  Options options = test::at_once("tuned");
  options.mode = Mode::MaxAutotune;
  return options;
}

/// A program with something to decide: whether its parts share tiles, and which axis is a vector.
Tensors centred(const at::Tensor& x, const at::Tensor& gain) {
  const at::Tensor scale = gain.square().mean(), columns = (x * scale).sum(0);
  return {(x - columns / x.size(0)).mul_(gain.unsqueeze(1)), columns};
}

TEST(Autotune, CallersTensorsAreNotTouched) {
  auto f = compile(
      [](const at::Tensor& x, const at::Tensor& part) {
        const Tensors made = centred(x, part.select(1, 0));
        x.mul_(made[0]);
        return made;
      },
      tuned());
  at::Tensor x = at::rand({300, 200}), eager = x.clone();
  for (int call = 0; call < 4; ++call) {
    f(x, x);  // arguments that share memory
    const Tensors made = centred(eager, eager.select(1, 0));
    eager.mul_(made[0]);
    ASSERT_TRUE(at::allclose(x, eager, 1e-4, 1e-5)) << "call " << call;
    x.copy_(eager);
  }
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.explain();
}

/// A second function of the same program takes over what was found for the first.
TEST(Autotune, WhatWasFoundIsKept) {
  const at::Tensor x = at::rand({256, 512}), gain = at::rand({256});
  std::vector<std::string> first;
  for (int function = 0; function < 2; ++function) {
    auto f = compile(centred, tuned());
    test::warm_up(f, x, gain);
    const Report report = f.report();
    if (function == 0) first = report.tuned;
    EXPECT_EQ(report.tuned, first);
    for (const std::string& way : report.tuned)
      EXPECT_NE(report.text().find(way), std::string::npos) << report.text();
  }
}

/// The schedule that runs is the one that explain() shows: with the ways that were found.
TEST(Autotune, ExplainShowsWhatWasTaken) {
  auto f = compile(centred, tuned());
  test::warm_up(f, at::rand({256, 512}), at::rand({256}));
  const std::vector<Decision> decisions = f.decisions();
  EXPECT_FALSE(decisions.empty());
  for (const std::string& way : f.report().tuned) {
    bool shown = false;
    for (const Decision& d : decisions)
      shown |= way.starts_with(d.id() + ": " + d.ways[d.taken].name + ", ");
    EXPECT_TRUE(shown) << way << '\n' << f.explain();
  }
}

/// A plan that draws random numbers must not run without a call.
TEST(Autotune, RandomNumbersAreNotDrawn) {
  auto f = compile(
      [](const at::Tensor& x, const at::Tensor& gain) {
        Tensors made = centred(x, gain);
        made.push_back(at::rand_like(x) * made[0]);
        return made;
      },
      tuned());
  const at::Tensor x = at::rand({64, 128}), gain = at::rand({64});
  for (int call = 0; call < 3; ++call) {
    at::manual_seed(5);
    const Tensors made = f(x, gain);
    at::manual_seed(5);
    EXPECT_TRUE(at::allclose(made[2], at::rand_like(x) * made[0])) << "call " << call;
  }
}

/// Whatever keeps a plan from running on its own data, the plan stays.
TEST(Autotune, OtherDtypes) {
  auto f = compile(
      [](const at::Tensor& x, const at::Tensor& gain) { return centred(x.to(at::kFloat), gain); },
      tuned());
  test::warm_up(f, at::rand({256, 512}).to(at::kFloat8_e4m3fn), at::rand({256}));
}

/// Indices are data: those of its own are in range, and what gives up is not timed.
TEST(Autotune, IndicesAndEmptyTensors) {
  auto pick = [](const at::Tensor& table, const at::Tensor& index) {
    const at::Tensor rows = table.index_select(0, index);
    return Tensors{rows - rows.sum(0), rows.sum(1)};
  };
  auto f = compile(pick, tuned());
  for (int64_t rows : {40, 0}) {
    const at::Tensor table = at::rand({50, 64}), index = at::randint(50, {rows});
    for (int call = 0; call < 3; ++call) {
      const Tensors made = f(table, index), expected = pick(table, index);
      for (size_t k = 0; k < made.size(); ++k)
        EXPECT_TRUE(at::allclose(made[k], expected[k], 1e-4, 1e-5)) << rows << ", " << k;
    }
  }
}

}  // namespace
}  // namespace graft
