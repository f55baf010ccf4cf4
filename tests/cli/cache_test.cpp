// Plans that processes keep for each other, by the command.

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "support/command.h"

namespace graft::test {
namespace {

namespace fs = std::filesystem;

class CacheCommand : public testing::Test {
 protected:
  Ran here(const std::string& args) const {
    return graft(args, "GRAFT_CACHE_DIR=" + folder_.file("cache") + " ");
  }
  Ran compile(const std::string& workload = "tiny_rope_f32") const {
    return here("compile " + workload + " --small --out " + folder_.file(workload + ".graft"));
  }
  nlohmann::json list() const { return nlohmann::json::parse(here("cache list --json").out); }

  Folder folder_;
};

TEST_F(CacheCommand, ASecondProcessCompilesNothing) {
  const Ran first = compile();
  ASSERT_EQ(first.code, 0) << first.out;
  EXPECT_EQ(first.out.find("found, linked"), std::string::npos) << first.out;
  EXPECT_TRUE(fs::exists(folder_.file("tiny_rope_f32.graft")));
  const Ran second = compile();
  ASSERT_EQ(second.code, 0) << second.out;
  EXPECT_NE(second.out.find("found, linked"), std::string::npos) << second.out;
}

TEST_F(CacheCommand, ListsShowsAndRemoves) {
  EXPECT_NE(here("cache list").out.find("0 plans"), std::string::npos) << here("cache list").out;
  ASSERT_EQ(compile().code, 0);
  const nlohmann::json plans = list().at("plans");
  ASSERT_EQ(plans.size(), 1u);
  const std::string name = plans[0].at("name");
  EXPECT_EQ(plans[0].at("function"), "tiny_rope_f32");
  EXPECT_NE(here("cache list").out.find(name), std::string::npos);
  const Ran stat = here("cache stat " + name);
  EXPECT_EQ(stat.code, 0);
  for (const char* text : {"tiny_rope_f32", "proof", "processor", "aten::mul.Tensor"})
    EXPECT_NE(stat.out.find(text), std::string::npos) << stat.out;
  EXPECT_NE(here("cache stat " + name + " --schedule").out.find("kernel "), std::string::npos);
  EXPECT_NE(here("cache stat " + name.substr(1)).out.find("did you mean"), std::string::npos);
  EXPECT_EQ(here("cache verify").code, 0);
  {
    std::ofstream damaged(folder_.file("cache/" + name + ".plan"), std::ios::app);
    damaged << 'x';
  }
  const Ran verify = here("cache verify");
  EXPECT_EQ(verify.code, 1);
  EXPECT_NE(verify.out.find("1 damaged"), std::string::npos) << verify.out;
  EXPECT_NE(here("cache list").out.find("not used"), std::string::npos);
  EXPECT_EQ(here("cache clear --unused").code, 0);
  EXPECT_EQ(list().at("plans").size(), 0u);
  ASSERT_EQ(compile().code, 0);
  EXPECT_EQ(here("cache trim --max-size 1G").code, 0);
  EXPECT_EQ(list().at("plans").size(), 1u);
  const Ran trim = here("cache trim --max-size 10");
  EXPECT_NE(trim.out.find("removed"), std::string::npos) << trim.out;
  EXPECT_EQ(list().at("plans").size(), 0u);
  const Ran bad = here("cache trim --max-size many");
  EXPECT_EQ(bad.code, 1);
  EXPECT_NE(bad.out.find("512M"), std::string::npos) << bad.out;
  EXPECT_NE(graft("cache list", "GRAFT_CACHE_DIR=off ").out.find("is off"), std::string::npos);
}

/// All are right, and one entry is left.
TEST_F(CacheCommand, SixteenProcessesOnAnEmptyCache) {
  constexpr int kProcesses = 16;
  std::vector<Ran> ran(kProcesses);
  std::vector<std::thread> threads;
  for (int p = 0; p < kProcesses; ++p)
    threads.emplace_back([&, p] {
      ran[static_cast<size_t>(p)] = here("compile tiny_rope_f32 --small --out " +
                                         folder_.file("p" + std::to_string(p) + ".graft"));
    });
  for (std::thread& thread : threads) thread.join();
  for (const Ran& one : ran) {
    EXPECT_EQ(one.code, 0) << one.out;
    EXPECT_EQ(one.out.find("warning"), std::string::npos) << one.out;
    EXPECT_EQ(one.out.find("mismatch"), std::string::npos) << one.out;
  }
  EXPECT_EQ(list().at("plans").size(), 1u);
  EXPECT_EQ(here("cache verify").code, 0);
  for (const auto& file : fs::directory_iterator(folder_.file("cache")))
    EXPECT_NE(file.path().filename().string().substr(0, 5), ".part") << file.path();
}

}  // namespace
}  // namespace graft::test
