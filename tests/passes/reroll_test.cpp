// Reroll against unrolled loops: the text of a few, and the results of thousands of random ones.
#include "passes/reroll.h"

#include <gtest/gtest.h>

#include <random>

#include "passes/copies_early.h"
#include "passes/dead_stores.h"
#include "random_loop.h"

namespace graft::passes {
namespace {

/// The items of the program, rerolled, without what nobody reads any more.
std::string rerolled(const ProgramBuilder& b) {
  std::string text = ir::print(remove_dead_stores(reroll(b.program)));
  return text.substr(std::min(text.find("\n["), text.find("\nrepeat")) + 1);
}

TEST(Reroll, ColumnsAndTheRestBehindThem) {
  ProgramBuilder b;
  auto w = b.argument({3, 8}), u = b.argument({8, 8}), q = b.output({3, 8});
  for (int64_t k = 0; k < 6; ++k) {
    auto t = b.temporary({3}), rest = slice(w, 1, k, 8);
    b.map(t, [](Value v) { return v.op(ir::Op::RoundEven); }, column(w, k));
    b.map(column(q, k), [](Value v) { return v; }, t);
    b.map(
        rest, [](Value v, Value r) { return v - r; }, rest, slice(slice(u, 0, k, k + 1), 1, k, 8));
  }
  EXPECT_EQ(rerolled(b),
            "repeat 6\n"
            "  [a:6,b:3] %8[b] f32 = round(%0[a+b*8])\n"
            "  [a:6,b:3] %2[a+b*8] f32 = %8[b]\n"
            "  [a:6,b:3,c:8-a] %0[a+b*8+c] f32 = (%0[a+b*8+c] - %1[a*9+c])\n"
            "result 0 = %2 f32[3,8]:(8,1)\n");
}

/// `held`: a step still reads the old state when it has made the new one.
std::string recurrence(bool held) {
  ProgramBuilder b;
  auto x = b.argument({3, 8}), q = b.output({3, 8}), h = b.temporary({3});
  b.map(h, [](Value v) { return v * 2.0; }, column(x, 0));
  for (int64_t k = 1; k < 7; ++k) {
    auto next = b.temporary({3});
    b.map(next, [](Value a, Value v) { return a * 0.5 + v; }, h, column(x, k));
    if (held || k == 6) b.map(column(q, k), [](Value v) { return v; }, held ? h : next);
    h = next;
  }
  return rerolled(b);
}

TEST(Reroll, ACarriedTemporaryIsOne) {
  EXPECT_EQ(recurrence(false),
            "[a:3] %2[a] f32 = (%0[a*8] * 2)\n"
            "[a:3] %8[a] f32 = ((%2[a] * 0.5) + %0[a*8+1])\n"
            "repeat 5\n"
            "  [a:5,b:3] %8[b] f32 = ((%8[b] * 0.5) + %0[a+b*8+2])\n"
            "[a:3] %1[a*8+6] f32 = %8[a]\n"
            "result 0 = %1 f32[3,8]:(8,1)\n");
}

TEST(Reroll, ACarriedTemporaryIsHeldAsLongAsItIsRead) {
  EXPECT_EQ(recurrence(true),
            "[a:3] %2[a] f32 = (%0[a*8] * 2)\n"
            "[a:3] %8[a] f32 = ((%2[a] * 0.5) + %0[a*8+1])\n"
            "[a:3] %1[a*8+1] f32 = %2[a]\n"
            "repeat 5\n"
            "  [a:5,b:3] %7[b] f32 = ((%8[b] * 0.5) + %0[a+b*8+2])\n"
            "  [a:5,b:3] %1[a+b*8+2] f32 = %8[b]\n"
            "  [a:5,b:3] %8[b] f32 = %7[b]\n"
            "result 0 = %1 f32[3,8]:(8,1)\n");
}

TEST(Reroll, AConstantBecomesTheStep) {
  ProgramBuilder b;
  auto x = b.argument({3, 8});
  for (int64_t k = 0; k < 6; ++k) {
    ir::StatementBuilder s({3, 8});
    Value below = ir::lt(s.axis(1), s.integer(2 * k - 3, kLong)), v = s.load(x);
    b.program.items.emplace_back(s.store(x, ir::select(below, v * 0.5, v)));
  }
  EXPECT_EQ(rerolled(b),
            "repeat 6\n"
            "  [a:6,b:3,c:8] %0[b*8+c] f32 = select((c < (-3 + (a * 2))), (%0[b*8+c] * 0.5), "
            "%0[b*8+c])\n");
}

/// GRAFT_SEED=n runs that program alone, GRAFT_PROGRAMS=n that many.
TEST(Reroll, RandomLoopsKeepTheirResults) {
  const char *only = std::getenv("GRAFT_SEED"), *many = std::getenv("GRAFT_PROGRAMS");
  auto first = only ? static_cast<uint32_t>(std::atoi(only)) : 0;
  uint32_t count = only ? 1 : many ? static_cast<uint32_t>(std::atoi(many)) : 2000, found = 0;
  for (uint32_t seed = first; seed < first + count; ++seed) {
    RandomProgram random(seed);
    const ir::Program& program = random.made.program;
    std::string expected = after(program, random.arguments),
                text = "seed " + std::to_string(seed) + "\n" + ir::print(program);
    ir::Program once = reroll(copies_early(program));
    found += std::any_of(once.items.begin(), once.items.end(), [](const ir::Item& item) {
      return std::holds_alternative<ir::Repeat>(item);
    });
    try {
      ASSERT_TRUE(after(once, random.arguments) == expected) << text << "rerolled\n"
                                                             << ir::print(once);
      ASSERT_TRUE(after(remove_dead_stores(once), random.arguments) == expected)
          << text << ir::print(once);
    } catch (const std::logic_error& e) {
      FAIL() << text << "rerolled\n" << ir::print(once) << e.what();
    }
    for (uint32_t variant = seed; variant < seed + 2; ++variant) {
      Settings settings;
      settings.target.lanes = 16 >> variant % 3;
      if (variant % 2) settings.skip = {list()[variant / 2 % list().size()].name};
      if (variant % 16 == 6) settings.skip = {"inline", "simplify", "simplify-inlined"};
      text += "lanes " + std::to_string(settings.target.lanes);
      for (const std::string& name : settings.skip) text += ", without " + name;
      try {
        ir::Schedule schedule = run(program, settings);
        ASSERT_TRUE(after(schedule, random.arguments) == expected) << text << "\n"
                                                                   << ir::print(schedule);
      } catch (const std::logic_error& e) {
        FAIL() << text << "\n" << e.what();
      }
    }
  }
  if (!only) {
    EXPECT_GT(found, count / 3);
  }
}

}  // namespace
}  // namespace graft::passes
