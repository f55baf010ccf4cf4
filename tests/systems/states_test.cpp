// Training with states in a file: the bits of training in memory, within the budget.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "systems/states/checksum.h"
#include "systems/states/pipeline.h"
#include "systems/states/plan.h"
#include "tests/systems/states_support.h"

namespace graft::systems::test {
namespace {

constexpr int64_t kBudget = 3 * 5 * 4096 * 2;  // of about 5 groups

OffloadOptions options_of(const StateFileName& name, int64_t budget = kBudget) {
  return {.file = name(), .budget_bytes = budget, .lr = 0.01};
}

class States : public testing::TestWithParam<std::tuple<bool, FileAccess, bool>> {};

TEST_P(States, HaveTheBitsOfTheUpdateInMemory) {
  const auto [interleave, access, keep] = GetParam();
  const StateFileName name;
  OffloadOptions options = options_of(name);
  options.interleave = interleave;
  options.access = access;
  options.keep_parameters = keep;
  auto parameters = small_model();
  InMemory memory{.options = options};
  OffloadedAdamW adamw(parameters, options);
  EXPECT_GT(adamw.group_count(), 3);
  EXPECT_LE(adamw.resident_bytes(), kBudget);
  for (int64_t i = 0; i < 6; ++i) {
    train_step(parameters, adamw);
    memory.train_step(i);
  }
  EXPECT_EQ(difference(memory, parameters, adamw), "");
  EXPECT_EQ(adamw.steps(), 6);
  EXPECT_EQ(adamw.committed(), 6);
  if (!interleave) {
    EXPECT_EQ(adamw.stats().updated_in_backward, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, States,
                         testing::Combine(testing::Bool(),
                                          testing::Values(FileAccess::Direct, FileAccess::Cached),
                                          testing::Bool()));

TEST(StatesOfAFile, ResumeWithTheBitsOfARunThatWentOn) {
  const StateFileName name;
  InMemory memory{.options = options_of(name)};
  for (int64_t run = 0; run < 3; ++run) {
    auto parameters = small_model();  // from scratch: all comes from the file
    OffloadedAdamW adamw(parameters, options_of(name));
    EXPECT_EQ(adamw.steps(), run * 2);
    for (int64_t i = run * 2; i < run * 2 + 2; ++i) {
      train_step(parameters, adamw);
      memory.train_step(i);
    }
    EXPECT_EQ(difference(memory, parameters, adamw), "");
  }
}

TEST(StatesOfAFile, AreCutWhereAParameterIsLargerThanAGroup) {
  const StateFileName name;
  auto parameters = small_model();
  const OffloadOptions options = options_of(name, 3 * 4 * 4096 + 4096);
  InMemory memory{.options = options};
  OffloadedAdamW adamw(parameters, options);
  EXPECT_GT(adamw.group_count(), 12);
  for (int64_t i = 0; i < 3; ++i) {
    train_step(parameters, adamw);
    memory.train_step(i);
  }
  EXPECT_EQ(difference(memory, parameters, adamw), "");
}

TEST(StatesOfAFile, LeaveParametersWithoutGradientAlone) {
  const StateFileName name;
  auto parameters = small_model();
  InMemory memory{.options = options_of(name)};
  OffloadedAdamW adamw(parameters, options_of(name));
  for (int64_t i = 0; i < 5; ++i) {
    // The upper layers take part in each other step only.
    const size_t used = i % 2 == 0 ? 12 : 6;
    const auto loss = [&](std::vector<at::Tensor>& all) {
      return loss_at({all.begin(), all.begin() + used}, i);
    };
    adamw.zero_grad();
    loss(parameters).backward();
    adamw.step();
    loss(memory.parameters).backward();
    memory.update();
  }
  EXPECT_EQ(difference(memory, parameters, adamw), "");
  EXPECT_EQ(memory.steps.back(), 3);
}

TEST(StatesOfAFile, WaitForAllBackwardPassesOfAStep) {
  const StateFileName name;
  OffloadOptions options = options_of(name);
  options.backwards_per_step = 2;
  auto parameters = small_model();
  InMemory memory{.options = options};
  OffloadedAdamW adamw(parameters, options);
  for (int64_t i = 0; i < 2; ++i) {
    adamw.zero_grad();
    for (int64_t part = 0; part < 2; ++part) {
      loss_at(parameters, 2 * i + part).backward();
      loss_at(memory.parameters, 2 * i + part).backward();
    }
    adamw.step();
    memory.update();
  }
  EXPECT_EQ(difference(memory, parameters, adamw), "");

  for (int64_t part = 0; part < 3; ++part) loss_at(parameters, part).backward();
  EXPECT_THROW(adamw.step(), c10::Error);
  adamw.restore();
  EXPECT_EQ(difference(memory, parameters, adamw), "");
}

TEST(StatesOfAFile, KeepMasterWeightsOfBfloat16) {
  const StateFileName name;
  const OffloadOptions options = options_of(name);
  auto parameters = small_model(at::kBFloat16);
  // The master copy in memory, updated with the rounded model's gradient in fp32.
  InMemory master{.options = options};
  for (size_t i = 0; i < parameters.size(); ++i)
    master.parameters[i] = parameters[i].detach().to(at::kFloat).requires_grad_();
  auto rounded = small_model(at::kBFloat16);
  for (int run = 0; run < 2; ++run) {
    auto resumed = small_model(at::kBFloat16);
    OffloadedAdamW adamw(resumed, options);
    for (int64_t i = 0; i < 3; ++i) {
      train_step(resumed, adamw);
      loss_at(rounded, run * 3 + i).backward();
      for (size_t p = 0; p < rounded.size(); ++p) {
        master.parameters[p].mutable_grad() = rounded[p].grad().to(at::kFloat);
        rounded[p].mutable_grad().reset();
      }
      master.update();
      const c10::NoGradGuard no_grad;
      for (size_t p = 0; p < rounded.size(); ++p) rounded[p].copy_(master.parameters[p]);
    }
    for (size_t p = 0; p < rounded.size(); ++p) EXPECT_TRUE(resumed[p].equal(rounded[p])) << p;
  }
}

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(StatesOfAFile, TakeNoMoreMemoryThanTheBudget) {
  const StateFileName name;
  std::vector<at::Tensor> parameters;
  for (int i = 0; i < 16; ++i) {
    parameters.push_back(random({512, 512}, i).requires_grad_());  // 2 MiB of states each
    parameters.back().mutable_grad() = random({512, 512}, 50 + i);
  }
  constexpr int64_t budget = 8 << 20;
  {  // the code that a step needs comes into memory now
    const StateFileName first;
    OffloadedAdamW adamw(parameters, options_of(first, budget));
    adamw.step();
    adamw.wait();
  }
  const int64_t before = resident_bytes();
  OffloadedAdamW adamw(parameters, options_of(name, budget));
  EXPECT_GE(adamw.state_bytes(), 6 * budget);
  EXPECT_LE(adamw.resident_bytes(), budget);
  for (int i = 0; i < 3; ++i) {
    adamw.step();
    adamw.wait();
    // Beside the buffers there are three threads' stacks and allocators.
    EXPECT_LE(resident_bytes() - before, budget + (2 << 20));
  }
}

TEST(StatesOfAFile, SayWhatIsWrongWithArguments) {
  const StateFileName name;
  const auto message = [&](std::vector<at::Tensor> parameters, const OffloadOptions& options) {
    try {
      const OffloadedAdamW adamw(std::move(parameters), options);
    } catch (const c10::Error& error) {
      return std::string(error.what_without_backtrace());
    }
    return std::string();
  };
  EXPECT_NE(message(small_model(), options_of(name, 4096)).find("is too little"),
            std::string::npos);
  EXPECT_NE(message({}, options_of(name)).find("no parameters"), std::string::npos);
  EXPECT_NE(message({random({4, 4}, 1).t()}, options_of(name)).find("contiguous"),
            std::string::npos);
  EXPECT_NE(message(small_model(at::kDouble), options_of(name)).find("Double"), std::string::npos);
  EXPECT_NE(message(small_model(), {.file = "/no/such/folder/x"}).find("No such file"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(name()));
}

TEST(StatesPipeline, CommitsAFinishedStepBeforeItIsReset) {
  std::vector<std::string> done;  // of the writing thread until the reset, which waits for it
  std::vector<states::PageBuffer> buffers;
  for (int i = 0; i < 3; ++i) buffers.emplace_back(4096);
  states::Pipeline pipeline(
      {[](int64_t, std::byte*) {}, [](int64_t, std::byte*) {},
       [&](int64_t group, std::byte*, int64_t) {
         std::this_thread::sleep_for(std::chrono::milliseconds(20));
         done.push_back("write " + std::to_string(group));
       },
       [&](int64_t step) { done.push_back("commit " + std::to_string(step)); }},
      std::move(buffers), 3, 0, {0, 1, 2});
  pipeline.finish_step({0, 1, 2});
  pipeline.reset([&](std::byte*) {
    done.emplace_back("reset");
    return int64_t{1};
  });
  EXPECT_EQ(done, (std::vector<std::string>{"write 0", "write 1", "write 2", "commit 1", "reset"}));
}

TEST(StatesPlan, CutsAtMultiplesOfAPieceAndFitsTheBudget) {
  const std::vector<int64_t> sizes = {1000, 3, 0, 129, 64};
  for (const int64_t elements : {64, 128, 4096}) {
    std::vector<int64_t> next(sizes.size(), 0);
    for (const states::Group& group : states::plan_groups(sizes, elements))
      for (const states::Piece& piece : group.pieces) {
        EXPECT_EQ(piece.begin, next[piece.parameter]);
        EXPECT_EQ(piece.begin % states::kPieceAlign, 0);
        EXPECT_LE(piece.offset + piece.count, elements);
        next[piece.parameter] += piece.count;
      }
    EXPECT_EQ(next, sizes);
  }
  EXPECT_EQ(states::elements_for(3 * 4 * 4096 - 1, 3, 3, 0, sizes), 0);
  EXPECT_GT(states::elements_for(3 * 4 * 4096, 3, 3, 0, sizes), 0);
}

TEST(StatesChecksum, SeesEveryByte) {
  std::vector<unsigned char> data(200, 0);
  const uint64_t before = states::checksum(data.data(), data.size());
  for (size_t i = 0; i < data.size(); ++i) {
    data[i] = 1;
    EXPECT_NE(states::checksum(data.data(), data.size()), before) << i;
    data[i] = 0;
  }
  EXPECT_NE(states::checksum(data.data(), data.size() - 1), before);
}

}  // namespace
}  // namespace graft::systems::test
