// Dead stores: what is removed, held as text, and random programs that keep their results.
#include "passes/dead_stores.h"

#include <gtest/gtest.h>

#include <random>

#include "build.h"

namespace graft::passes {
namespace {

using ir::Role;
using ir::Value;

/// The items that are left of a program.
std::string live(const char* text) {
  return items_after(text, remove_dead_stores);
}

TEST(DeadStores, ATemporaryThatNobodyReadsGoes) {
  EXPECT_EQ(live(R"(
              %0: argument 0, 16 bytes
              %1: temporary, 16 bytes
              %2: temporary, 16 bytes
              %3: output, 16 bytes
              [a:4] %1[a] f32 = %0[a]
              [a:4] %2[a] f32 = %1[a]
              [a:4] %3[a] f32 = %0[a]
              result 0 = %3 f32[4]:(1)
            )"),
            "[a:4] %3[a] f32 = %0[a]\n");
}

TEST(DeadStores, WhatIsOverwrittenFirstGoes) {
  EXPECT_EQ(live(R"(
              %0: argument 0, 48 bytes
              %1: output, 48 bytes
              [a:4,b:3] %1[a*3+b] f32 = (%0[a*3+b] + 1)
              [a:4,b:2] %1[a*3+b] f32 = %0[a*3+b]
              [a:4,b:3] %1[a*3+b] f32 = (%0[a*3+b] + 2)
              result 0 = %1 f32[4,3]:(3,1)
            )"),
            "[a:4,b:3] %1[a*3+b] f32 = (%0[a*3+b] + 2)\n");
}

TEST(DeadStores, WhatSeveralOverwriteGoes) {
  EXPECT_EQ(live(R"(
              %0: argument 0, 48 bytes
              %1: output, 48 bytes
              [a:12] %1[a] f32 = 0
              [a:4,b:2] %1[a*3+b] f32 = %0[a*3+b]
              [a:4] %1[a*3+2] f32 = 5
              result 0 = %1 f32[4,3]:(3,1)
            )"),
            "[a:4,b:2] %1[a*3+b] f32 = %0[a*3+b]\n"
            "[a:4] %1[a*3+2] f32 = 5\n");
}

/// Rows 0 to 30 are stored over, and row 31 is left.
TEST(DeadStores, OfWhatIsMostlyOverwrittenTheRestStays) {
  EXPECT_EQ(live(R"(
              %0: argument 0, 384 bytes
              %1: output, 384 bytes
              [a:32,b:3] %1[a*3+b] f32 = (%0[a*3+b] + 1)
              [a:31,b:3] %1[a*3+b] f32 = %0[a*3+b]
              result 0 = %1 f32[32,3]:(3,1)
            )"),
            "[a:1,b:3] %1[a*3+b+93] f32 = (%0[a*3+b+93] + 1)\n"
            "[a:31,b:3] %1[a*3+b] f32 = %0[a*3+b]\n");
}

/// A border of what is copied, before a step of a stencil stores the inside.
constexpr const char* kBorder = R"(
              %0: argument 0, 1048576 bytes
              %1: output, 1048576 bytes
              [a:512,b:512] %1[a*512+b] f32 = %0[a*512+b]
              [a:510,b:510] %1[a*512+b+513] f32 = (%0[a*512+b] + %0[a*512+b+1026])
              result 0 = %1 f32[512,512]:(512,1)
            )";

TEST(DeadStores, TheBorderOfWhatIsOverwrittenStays) {
  const auto live = [](const Settings& settings) {
    return items_after(kBorder, [&](ir::Program p) { return dead_stores(std::move(p), settings); });
  };
  EXPECT_EQ(live({}),
            "[a:1,b:512] %1[a*512+b] f32 = %0[a*512+b]\n"
            "[a:510,b:1] %1[a*512+b+512] f32 = %0[a*512+b+512]\n"
            "[a:1,b:512] %1[a*512+b+261632] f32 = %0[a*512+b+261632]\n"
            "[a:510,b:1] %1[a*512+b+1023] f32 = %0[a*512+b+1023]\n"
            "[a:510,b:510] %1[a*512+b+513] f32 = (%0[a*512+b] + %0[a*512+b+1026])\n");
  Settings settings;
  settings.any_size = true;
  EXPECT_EQ(count_of("\n", live(settings)), 2u) << "at some sizes it would not be";
  settings = {};
  settings.target.times.kernel = 1e6;
  EXPECT_EQ(count_of("\n", live(settings)), 2u) << "kernels that take longer than the copy";
}

/// Two of three numbers in a row: their lines are all that the copy touches.
TEST(DeadStores, SidesOfShortRowsAreNoSaving) {
  EXPECT_EQ(
      count_of("\n", items_after(R"(
              %0: argument 0, 12582912 bytes
              %1: output, 12582912 bytes
              [a:1048576,b:3] %1[a*3+b] f32 = %0[a*3+b]
              [a:1048576] %1[a*3+1] f32 = (%0[a*3+1] * 2)
              result 0 = %1 f32[1048576,3]:(3,1)
            )",
                                 [](ir::Program p) { return dead_stores(std::move(p), {}); })),
      2u);
}

TEST(DeadStores, WhatIsReadBeforeItIsOverwrittenStaysWhole) {
  const char* items =
      "[a:32,b:3] %1[a*3+b] f32 = (%0[a*3+b] + 1)\n"
      "[a:31] %2[a] f32 = %1[a*3+4]\n"
      "[a:31,b:3] %1[a*3+b] f32 = 2\n";
  EXPECT_EQ(live((std::string("%0: argument 0, 384 bytes\n%1: output, 384 bytes\n"
                              "%2: output, 124 bytes\n") +
                  items + "result 0 = %1 f32[32,3]:(3,1)\nresult 1 = %2 f32[31]:(1)\n")
                     .c_str()),
            items);
}

TEST(DeadStores, WhatIsOverwrittenInPartStays) {
  EXPECT_EQ(live(R"(
              %0: argument 0, 48 bytes
              %1: output, 48 bytes
              [a:4,b:3] %1[a*3+b] f32 = (%0[a*3+b] + 1)
              [a:4] %1[a*3] f32 = %0[a*3]
              result 0 = %1 f32[4,3]:(3,1)
            )"),
            "[a:4,b:3] %1[a*3+b] f32 = (%0[a*3+b] + 1)\n"
            "[a:4] %1[a*3] f32 = %0[a*3]\n");
}

TEST(DeadStores, AnArgumentIsReadByTheCaller) {
  EXPECT_EQ(live(R"(
              %0: argument 0, 16 bytes
              %1: argument 1, 16 bytes
              [a:4] %0[a] f32 = (%1[a] + 1)
            )"),
            "[a:4] %0[a] f32 = (%1[a] + 1)\n");
}

TEST(DeadStores, AnUpdateReadsWhatItOverwrites) {
  EXPECT_EQ(live(R"(
              %0: argument 0, 16 bytes
              %1: output, 16 bytes
              [a:4] %1[a] f32 = %0[a]
              [a:4] %1[a] f32 = (%1[a] * 2)
              result 0 = %1 f32[4]:(1)
            )"),
            "[a:4] %1[a] f32 = %0[a]\n"
            "[a:4] %1[a] f32 = (%1[a] * 2)\n");
}

/// The store before the loop is read by the first step, the one in the loop by the next one.
TEST(DeadStores, AStepReadsWhatTheOneBeforeStored) {
  EXPECT_EQ(live(R"(
              %0: argument 0, 40 bytes
              %1: temporary, 8 bytes
              %2: temporary, 8 bytes
              %3: output, 40 bytes
              [a:2] %1[a] f32 = (%0[a*5] * 2)
              [a:2] %2[a] f32 = %1[a]
              [a:2,b:5] %3[a*5+b] f32 = %0[a*5+b]
              repeat 4
                [a:4,b:2] %3[a+b*5+1] f32 = (%1[b] + 1)
                [a:4,b:2] %1[b] f32 = (%0[a+b*5+1] + 2)
                [a:4,b:2] %2[b] f32 = (%1[b] + 3)
              result 0 = %3 f32[2,5]:(5,1)
            )"),
            "[a:2] %1[a] f32 = (%0[a*5] * 2)\n"
            "[a:2,b:5] %3[a*5+b] f32 = %0[a*5+b]\n"
            "repeat 4\n"
            "  [a:4,b:2] %3[a+b*5+1] f32 = (%1[b] + 1)\n"
            "  [a:4,b:2] %1[b] f32 = (%0[a+b*5+1] + 2)\n");
}

/// Statements over slices of small matrices, plain and repeated.
class RandomProgram {
 public:
  explicit RandomProgram(uint32_t seed) : random_(seed) {
    for (int k = 0; k < 5; ++k) {
      Role role = k < 2 ? Role::Argument : k < 4 ? Role::Temporary : Role::Output;
      std::vector<int64_t> sizes = {kRows, kColumns};
      ir::View v = role == Role::Argument ? made.argument(sizes)
                   : role == Role::Output ? made.output(sizes)
                                          : made.temporary(sizes);
      if (below(3) == 0)
        std::swap(v.strides[0], v.strides[1]), v.strides[0] = 1, v.strides[1] = kRows;
      if (role != Role::Argument) fill(v);
      views_.push_back(v);
    }
    for (int k = 3 + below(8); k > 0; --k) item();
  }
  ProgramBuilder made;

 private:
  static constexpr int64_t kRows = 3, kColumns = 6;
  int below(int64_t n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }

  void fill(const ir::View& v) {
    ir::StatementBuilder s(v.sizes);
    Value value = (s.axis(0) * 3.0 + s.axis(1)).to(kFloat);
    made.program.items.emplace_back(s.store(v, value));
  }
  /// [steps,] rows, columns; each side of the box anywhere in the matrix.
  struct Box {
    int64_t steps, rows, columns, growth, row, column, advance;
  };
  ir::Access access(const ir::View& v, const Box& b, int64_t row, int64_t column,
                    int64_t turn = 0) {
    ir::Access a{v.storage, v.dtype, row * v.strides[0] + column * v.strides[1], {}, {}};
    if (b.steps) a.strides = {b.advance * v.strides[1]};
    a.strides.insert(a.strides.end(), {v.strides[0], turn ? -v.strides[1] : v.strides[1]});
    if (turn) a.offset += (b.columns - 1) * v.strides[1];
    return a;
  }
  ir::Statement statement(int64_t steps) {
    Box b{steps, kRows, kColumns, 0, 0, 0, 0};
    if (below(2)) b.rows = 1 + below(kRows), b.row = below(kRows - b.rows + 1);
    if (steps) {
      b.growth = below(3) - 1, b.advance = b.growth < 0 ? 1 : below(2);
      int64_t travel = steps - 1;  // of the far end, at most twice where both move
      b.columns = 1 + (b.growth < 0 ? travel : 0);
      int64_t most = std::max(b.columns, b.columns + (b.growth + b.advance) * travel);
      if (most > kColumns) b.advance = 0, most = std::max(b.columns, b.columns + b.growth * travel);
      int64_t more = below(kColumns - most + 1);
      b.columns += more, b.column = below(kColumns - most - more + 1);
    } else if (below(2)) {
      b.columns = 1 + below(kColumns), b.column = below(kColumns - b.columns + 1);
    }
    const ir::View& to = views_[static_cast<size_t>(below(5))];
    std::vector<int64_t> axes = {b.rows, b.columns};
    if (steps) axes.insert(axes.begin(), steps);
    ir::StatementBuilder s(axes);
    Value v = s.constant(below(5) * 0.25, kFloat);
    for (int k = below(3); k > 0; --k) {
      const ir::View& from = views_[static_cast<size_t>(below(5))];
      bool own = from.storage == to.storage;
      int64_t row = own ? b.row : below(kRows - b.rows + 1);
      v = v + s.load(access(from, b, row, b.column, !own && !steps && below(4) == 0)) * 0.5;
    }
    ir::Statement out = s.store(access(to, b, b.row, b.column), v);
    if (steps) out.growth = {0, 0, b.growth};
    return out;
  }
  void item() {
    if (below(3) > 0) return void(made.program.items.emplace_back(statement(0)));
    ir::Repeat r{2 + below(3), {}};
    for (int k = 1 + below(3); k > 0; --k) r.body.push_back(statement(r.count));
    made.program.items.emplace_back(std::move(r));
  }

  std::mt19937 random_;
  std::vector<ir::View> views_;
};

std::vector<at::Tensor> arguments() {
  std::vector<at::Tensor> tensors;
  for (int k = 0; k < 2; ++k) tensors.push_back(at::arange(18, at::kFloat) * (0.5 + k));
  return tensors;
}

/// GRAFT_PROGRAMS=n runs that many.
TEST(DeadStores, RandomProgramsKeepTheirResults) {
  const char* many = std::getenv("GRAFT_PROGRAMS");
  uint32_t count = many ? static_cast<uint32_t>(std::atoi(many)) : 4000;
  Settings cuts;
  cuts.target.times.kernel = 0;  // wherever it can
  size_t before = 0, left = 0, pieces = 0;
  for (uint32_t seed = 0; seed < count; ++seed) {
    RandomProgram random(seed);
    const ir::Program& program = random.made.program;
    ASSERT_EQ(ir::verify(program), "") << "seed " << seed << "\n" << ir::print(program);
    const ir::Program less = remove_dead_stores(program), cut = dead_stores(program, cuts);
    for (const ir::Program* made : {&less, &cut}) {
      ASSERT_EQ(ir::verify(*made), "") << "seed " << seed;
      ASSERT_TRUE(after(*made, arguments()) == after(program, arguments()))
          << "seed " << seed << "\n"
          << ir::print(program) << "becomes\n"
          << ir::print(*made);
    }
    before += program.items.size(), left += less.items.size(), pieces += cut.items.size();
  }
  EXPECT_LT(left, before * 4 / 5) << "of " << before;
  EXPECT_GT(pieces, left);
}

}  // namespace
}  // namespace graft::passes
