// `graft gptq` from outside, at tiny sizes: its artifacts, its proofs, and what it refuses.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "support/command.h"

namespace graft {
namespace {

using nlohmann::json;
using test::Ran;

class GptqCommand : public testing::Test {
 protected:
  Ran gptq(const std::string& args) const {
    return test::graft("gptq --small --no-color --out " + folder_.file("out") + ' ' + args);
  }
  std::string path(const std::string& name) const { return folder_.file("out/" + name); }
  std::string text(const std::string& name) const {
    std::ostringstream out;
    out << std::ifstream(path(name)).rdbuf();
    return out.str();
  }
  json artifact(const std::string& name) const { return json::parse(text(name)); }
  bool exists(const std::string& name) const { return std::filesystem::exists(path(name)); }

  test::Folder folder_;
};

void expect_texts(const std::string& text, const std::vector<std::string>& wanted) {
  for (const std::string& word : wanted)
    EXPECT_NE(text.find(word), std::string::npos) << word << " is not in\n" << text;
}

TEST_F(GptqCommand, BothWritesEveryArtifact) {
  const Ran ran = gptq("--scenario qwen3b-layers --runs 2 --threads 1 --layers 2");
  ASSERT_EQ(ran.code, 0) << ran.out;
  expect_texts(ran.out,
               {"qwen3b-layers: 2 layers of Qwen2.5-3B's shapes", "q/o", "k/v", "gate/up", "down",
                "The cold pass took ", "as long as the cold one", "Numerical check passed",
                "14 of 14 layers equal bit for bit", "memory sentinel passed"});

  EXPECT_EQ(artifact("env_info.json").at("choice").at("layers"), 2);
  const json baseline = artifact("baseline.json"), compiled = artifact("compiled.json");
  for (const json* variant : {&baseline, &compiled}) {
    const json& statistics = variant->at("statistics");
    EXPECT_EQ(statistics.at("total_ms").at("runs"), 2);
    for (const char* key : {"mean", "stddev", "cv", "min", "max", "p50", "p90", "p99"})
      EXPECT_TRUE(statistics.at("total_ms").at(key).is_number()) << key;
    ASSERT_EQ(statistics.at("kinds").size(), 4u);
    for (const json& kind : statistics.at("kinds")) {
      EXPECT_EQ(kind.at("total_ms").at("runs"), 2);  // the spread is that of passes
      const json& share = kind.at("share");
      double sum = 0;
      for (const char* part : {"process", "factor", "update", "other"})
        sum += share.at(part).get<double>();
      EXPECT_NEAR(sum, 1, 1e-9);
      EXPECT_GT(kind.at("process_ms").get<double>(), 0);
    }
    ASSERT_EQ(variant->at("passes").size(), 2u);
    EXPECT_EQ(variant->at("passes")[0].at("layers").size(), 14u);
    const json &memory = variant->at("memory"), &storage = variant->at("storage");
    EXPECT_EQ(memory.at("end_bytes"), 0);
    EXPECT_GT(memory.at("peak_bytes").get<int64_t>(), 0);
    EXPECT_EQ(storage.at("tensors"), 4 * 14);
    EXPECT_EQ(storage.at("stored_bytes"), storage.at("logical_bytes"));
    EXPECT_TRUE(storage.at("inflated").empty());
  }
  // Both sides quantised the same layers to the same codes.
  for (size_t i = 0; i < 14; ++i)
    EXPECT_EQ(baseline["passes"][0]["layers"][i]["loss"],
              compiled["passes"][1]["layers"][i]["loss"]);
  const json& counters = compiled.at("counters");
  EXPECT_EQ(counters.at("breaks"), 0);
  EXPECT_TRUE(counters.at("newest_plan_compile_ms").is_number());
  EXPECT_GT(counters.at("records").get<int64_t>(), 0);
  EXPECT_TRUE(compiled.at("compile_overhead_ms").is_number());

  const json numerics = artifact("numerical_check.json");
  EXPECT_EQ(numerics.at("passed"), true);
  EXPECT_GT(numerics.at("counters").at("plan_hits").get<int64_t>(), 0);
  // The cost of every plan, not of the newest alone.
  const json& cost = numerics.at("code_generation");
  EXPECT_EQ(cost.at("plans"), numerics.at("counters").at("records"));
  EXPECT_GT(cost.at("kernels_compiled").get<int64_t>(), 0);
  EXPECT_GT(cost.at("compile_ms").get<double>(), 0);
  EXPECT_EQ(baseline.at("layers"), 2);
  EXPECT_EQ(artifact("memory_sentinel.json").at("sentinels").size(), 2u);
  expect_texts(text("summary.md"),
               {"# GPTQ, eager and compiled", "Command: `graft gptq", "| q/o | 64 x 64 |",
                "Compiled against eager: allocated", "Planning and the code generator took"});
}

TEST_F(GptqCommand, ATinyDecoderSaysTheSame) {
  const Ran ran = gptq("--scenario tiny-decoder --mode numerical-check");
  ASSERT_EQ(ran.code, 0) << ran.out;
  EXPECT_FALSE(exists("baseline.json"));
  EXPECT_FALSE(exists("compiled.json"));
  const json models = artifact("numerical_check.json").at("models");
  for (const char* what : {"logits", "greedy"}) {
    EXPECT_EQ(models.at(what).at("match_rate"), 1) << what;
    EXPECT_GT(models.at(what).at("positions").get<int64_t>(), 0) << what;
  }
  EXPECT_EQ(models.at("logits").at("max_logit_diff"), 0);
  // Against the original something does differ: the models were quantised.
  EXPECT_GT(models.at("against_original").at("logits").at("max_logit_diff").get<double>(), 0);
  EXPECT_EQ(models.at("perplexity").at("eager"), models.at("perplexity").at("compiled"));
  EXPECT_NE(models.at("perplexity").at("eager"), models.at("perplexity").at("original"));
  expect_texts(ran.out, {"original, eager", "Perplexity of held-out text"});
}

TEST_F(GptqCommand, RealWeightsAndBlockSizes) {
  const Ran real = gptq("--scenario minilm --mode baseline --runs 1");
  ASSERT_EQ(real.code, 0) << real.out;
  EXPECT_EQ(artifact("baseline.json").at("linears"), 6);
  const Ran block = gptq("--scenario blocksize-32 --mode compiled --runs 1");
  ASSERT_EQ(block.code, 0) << block.out;
  EXPECT_EQ(artifact("compiled.json").at("settings").at("block"), 32);
}

TEST_F(GptqCommand, TheSentinelNeedsNoScenario) {
  const Ran ran = gptq("--mode memory-sentinel");
  ASSERT_EQ(ran.code, 0) << ran.out;
  EXPECT_EQ(artifact("memory_sentinel.json").at("passed"), true);
}

TEST_F(GptqCommand, RefusesWhatItDoesNotKnow) {
  const std::string out = " --out " + folder_.file("x");
  test::expect_usage_error("gptq --mode fast --scenario minilm" + out, "--mode came as 'fast'");
  test::expect_usage_error("gptq --scenario minlm" + out, "did you mean 'minilm'?");
  test::expect_usage_error("gptq --mode both" + out,
                           "--scenario is missing; expected one of minilm, ");
  test::expect_usage_error("gptq --scenario minilm", "--out");
  test::expect_usage_error("gptq --scenario qwen3b-layers --seed -1" + out,
                           "--seed: Value -1 not in");
  test::expect_usage_error("gptq --scenario minilm --out \"\"", "--out: came empty");
  std::filesystem::create_directories(folder_.file("x/summary.md"));
  test::expect_usage_error("gptq --scenario minilm" + out, "x/summary.md is a folder, where");
  std::ofstream(folder_.file("file")) << "x";
  test::expect_usage_error("gptq --scenario minilm --out " + folder_.file("file/out"),
                           "cannot be made a folder");
}

TEST_F(GptqCommand, SaysWhatItIgnores) {
  const Ran ran = gptq("--scenario blocksize-32 --mode numerical-check --runs 2 --model x");
  ASSERT_EQ(ran.code, 0) << ran.out;
  expect_texts(ran.out, {"--runs changes nothing with --mode numerical-check",
                         "--model changes nothing with --mode numerical-check --scenario blocks"});
  EXPECT_EQ(artifact("env_info.json").at("choice").at("tokens"), 64);
  EXPECT_EQ(artifact("env_info.json").at("choice").at("layers"), 1);
}

// Before any step has begun.
TEST_F(GptqCommand, AScenarioThatCannotBeIsKnownAtOnce) {
  const Ran ran = gptq("--scenario minilm --mode both --model " + folder_.file("none"));
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.out.find("in a process of its own"), std::string::npos) << ran.out;
  expect_texts(ran.out, {"graft: no MiniLM model in", "tools/setup.sh"});
  const Ran many = gptq("--scenario minilm --mode baseline --layers 99");
  EXPECT_EQ(many.code, 1);
  expect_texts(many.out, {"--layers came as 99", "has 6"});
}

}  // namespace
}  // namespace graft
