// The pipeline as a whole: a program that most passes work on, and what leaving passes out does.
#include "passes/pipeline.h"

#include <gtest/gtest.h>

#include "programs.h"

namespace graft::passes {
namespace {

TEST(Pipeline, RopeBecomesTwoHalvesInOneLoop) {
  EXPECT_EQ(schedule_of(rope()),
            "kernel map v0:32 v1:512\n"
            "  vector v2:64\n"
            "    %7[v0*65536+v1*128+v2] f32 = ((%0[v0*65536+v1*128+v2] * %1[v1*128+v2]) + "
            "(neg(%0[v0*65536+v1*128+v2+64]) * %2[v1*128+v2]))\n"
            "    %7[v0*65536+v1*128+v2+64] f32 = ((%0[v0*65536+v1*128+v2+64] * %1[v1*128+v2+64]) + "
            "(%0[v0*65536+v1*128+v2] * %2[v1*128+v2+64]))\n"
            "result 0 = %7 f32[2,16,512,128]:(1048576,65536,128,1)\n");
}

TEST(Pipeline, SkippedPassesLeaveOneKernelPerStatement) {
  std::string text = schedule_of(rope(), {"inline", "fuse", "dead-stores"});
  EXPECT_EQ(count_of("kernel ", text), 6u) << text;
}

/// Small caches, so that small programs meet every pass.
Settings small_caches() {
  Settings settings;
  settings.target.second_cache_bytes = 8 << 10;
  settings.target.last_cache_bytes = 1 << 20;
  settings.most_folded_bytes = 1 << 20;
  return settings;
}

struct Named {
  const char* name;
  ProgramBuilder builder;
};
std::vector<Named> programs() {
  return {{"rope", rope({2, 2, 32, 32})},
          {"residual norm", residual_norm()},
          {"states", stacked_states()},
          {"columns", columns_in_place()},
          {"long sum", long_sum()},
          {"large results", large_results()},
          {"one less", one_less_per_row()},
          {"rows by index", rows_by_index()},
          {"remainders", counted_remainders()},
          {"powers", sum_of_powers()},
          {"updates", updates()},
          {"doubled product", doubled_product()},
          {"kept for long", kept_for_long()},
          {"same function", same_function()},
          {"product with table", product_with_table()}};
}

TEST(Pipeline, ProgramsKeepTheirResultsWithoutAnyOptionalPass) {
  for (const Named& one : programs()) {
    std::vector<at::Tensor> arguments = whole_numbers(one.builder);
    std::string expected = after(one.builder.program, arguments);
    std::vector<std::string> all;
    for (const PassName& pass : list()) {
      Settings settings = small_caches();
      if (pass.optional) all.push_back(pass.name);
      settings.skip = {pass.name};
      EXPECT_TRUE(after(run(one.builder.program, settings), arguments) == expected)
          << one.name << " without " << pass.name;
    }
    Settings settings = small_caches();
    EXPECT_TRUE(after(run(one.builder.program, settings), arguments) == expected) << one.name;
    settings.skip = all;
    EXPECT_TRUE(after(run(one.builder.program, settings), arguments) == expected)
        << one.name << " without all of them";
  }
}

/// Otherwise the test above would say nothing about it.
TEST(Pipeline, EachOptionalPassChangesOneOfThePrograms) {
  for (const PassName& pass : list()) {
    if (!pass.optional || std::string(pass.name) == "keep-wide") continue;
    std::vector<Named> all = programs();
    std::vector<std::string> others;  // that would do the same
    if (std::string(pass.name) == "simplify") others = {"simplify-inlined"};
    std::vector<std::string> skipped = others;
    skipped.emplace_back(pass.name);
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const Named& one) {
      return schedule_of(one.builder, others, small_caches()) !=
             schedule_of(one.builder, skipped, small_caches());
    })) << pass.name;
  }
}

TEST(Pipeline, EveryPassThatRunsIsRecordedInOrder) {
  Settings settings;
  settings.keep_text = true;
  std::vector<PassRecord> records;
  ir::Schedule schedule = run(rope().program, settings, &records);
  std::vector<std::string> expected{"lower"}, came;
  for (const PassName& pass : list())
    if (std::string(pass.name) != "keep-wide") expected.emplace_back(pass.name);
  for (const PassRecord& record : records) {
    came.push_back(record.name);
    EXPECT_NE(record.after, "") << record.name;
  }
  EXPECT_EQ(came, expected);
  EXPECT_EQ(records.back().after, ir::print(schedule));
}

TEST(Pipeline, AMalformedProgramIsNamed) {
  ProgramBuilder b;
  auto x = b.argument({8});
  auto out = b.output({4});
  ir::StatementBuilder s({8});
  ir::Access store{out.storage, kFloat, 0, {1}, {}};
  b.program.items.emplace_back(s.store(store, s.load(x)));
  try {
    run(b.program, {});
    FAIL() << "a store past the end of its storage went through";
  } catch (const std::logic_error& error) {
    EXPECT_NE(std::string(error.what()).find("reaches bytes 0 to 32 of storage %1, which has 16"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace graft::passes
