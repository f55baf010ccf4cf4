// `graft profile` from outside: its tables, its files, and its errors.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "support/command.h"

#include "workloads/minilm/model.h"

namespace graft {
namespace {

namespace fs = std::filesystem;
using test::Ran;

Ran profile(const std::string& args) {
  // One thread: several that wait for each other take seconds on a machine that others use.
  return test::graft("profile --threads 1 " + args);
}

void expect_text(const Ran& ran, const std::string& text) {
  EXPECT_NE(ran.out.find(text), std::string::npos) << text << "\n---\n" << ran.out;
}

/// A folder that goes with the test.
class CliProfile : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  std::string content(const std::string& name) const {
    std::ostringstream out;
    out << std::ifstream(file(name)).rdbuf();
    return out.str();
  }

 private:
  fs::path folder_ = fs::temp_directory_path() / ("graft_profile_test_" + std::to_string(getpid()));
};

TEST_F(CliProfile, TablesOfAWorkload) {
  const Ran ran = profile("rope_f32 --small --quick --calls 3 --quiet");
  ASSERT_EQ(ran.code, 0) << ran.out;
  for (const char* text :
       {"Ranges of eager", "eager/rope_f32", "compiled/graft::rope_f32", "Operators in eager",
        "Operators in compiled", "aten::mul", "element-wise", "memory movement",
        "Regions worth compiling", "pays after", "Together they should save"})
    expect_text(ran, text);
  EXPECT_EQ(ran.out.find("Operators in eager/rope_f32"), std::string::npos) << ran.out;
  EXPECT_EQ(ran.out.find('\x1b'), std::string::npos);              // no colours into a pipe
  EXPECT_EQ(ran.out.find("ERROR"), std::string::npos) << ran.out;  // Kineto misses no GPU aloud
}

TEST_F(CliProfile, PartsOfATrainingStep) {
  const Ran ran = profile(
      "gpt2_step_f32 --small --quick --calls 2 --quiet --axis layers=2 --json " + file("p.json"));
  ASSERT_EQ(ran.code, 0) << ran.out;
  for (const char* text :
       {"gpt2_step_f32 layers=2", "Operators in eager/gpt2_step_f32/forward,",
        "Operators in eager/gpt2_step_f32/backward,", "Operators in eager/gpt2_step_f32/optimizer,",
        "Kinds of work by range", "eager/gpt2_step_f32/forward/attention"})
    expect_text(ran, text);
  EXPECT_EQ(ran.out.find("Operators in eager/gpt2_step_f32/forward/attention"), std::string::npos);

  const auto json = nlohmann::json::parse(content("p.json"));
  std::map<std::string, double> shares;
  std::map<std::string, int> instances;
  for (const auto& range : json["profile"]["ranges"]) {
    shares[range["range"]] = range["share"];
    instances[range["range"]] = range["instances"];
  }
  const std::string step = "eager/gpt2_step_f32";
  EXPECT_EQ(instances[step + "/backward"], 2);
  EXPECT_EQ(instances[step + "/forward/attention"], 4);  // of each layer
  for (const char* part : {"/forward", "/backward", "/optimizer"})
    EXPECT_GT(shares[step + part], 0) << part;
}

TEST_F(CliProfile, ChoosesRangesAndRows) {
  const Ran ran =
      profile("rope_f32 --small --quick --calls 2 --quiet --top 1 --ranges '^eager/rope'");
  ASSERT_EQ(ran.code, 0) << ran.out;
  expect_text(ran, "Operators in eager/rope_f32");
  expect_text(ran, " more ");
  EXPECT_EQ(ran.out.find("Operators in compiled"), std::string::npos) << ran.out;
}

TEST_F(CliProfile, WritesItsFiles) {
  const Ran ran = profile("swiglu_f32 --small --quick --calls 4 --trace " + file("t.json") +
                          " --flame " + file("f.svg") + " --json " + file("p.json"));
  ASSERT_EQ(ran.code, 0) << ran.out;
  expect_text(ran, "] profiling");

  const auto trace = nlohmann::json::parse(content("t.json"));
  int calls = 0, operators = 0;
  for (const auto& event : trace["traceEvents"]) {
    calls += event["ph"] == "X" && event["name"] == "call";
    operators += event["ph"] == "X" && event["name"] == "aten::mul";
  }
  EXPECT_EQ(calls, 4);
  EXPECT_GE(operators, 4);

  const std::string svg = content("f.svg");
  EXPECT_EQ(svg.substr(0, 4), "<svg");
  EXPECT_NE(svg.find("<title>swiglu_f32"), std::string::npos);

  const auto json = nlohmann::json::parse(content("p.json"));
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["workload"], "swiglu_f32");
  EXPECT_TRUE(json["context"].contains("cpu"));
  ASSERT_EQ(json["regions"].size(), 1u);
  EXPECT_EQ(json["regions"][0]["region"], "swiglu_f32");
  EXPECT_GT(json["regions"][0]["share"].get<double>(), 0);  // found among the profile's ranges
  EXPECT_LE(json["regions"][0]["share"].get<double>(), 1.0);
  EXPECT_EQ(json["profile"]["calls"], 4);
  EXPECT_EQ(json["profile"]["ranges"][1]["range"], "eager");
  EXPECT_EQ(json["profile"]["ranges"][1]["instances"], 4);
}

TEST_F(CliProfile, RegionsOfTheModel) {
  const fs::path folder = graft::workloads::minilm::default_folder();
  if (!fs::exists(folder / "config.json"))
    GTEST_SKIP() << "no model in " << folder << "; tools/setup.sh fetches it";
  const Ran ran = profile("minilm --small --quick --calls 2 --quiet --json " + file("p.json"));
  ASSERT_EQ(ran.code, 0) << ran.out;
  expect_text(ran, "MiniLM, batch 1 x 16 tokens");
  const auto json = nlohmann::json::parse(content("p.json"));
  ASSERT_EQ(json["regions"].size(), 6u);
  double share = 0, least = 1e9;
  for (const auto& region : json["regions"]) {
    share += region["share"].get<double>();
    EXPECT_GT(region["share"].get<double>(), 0) << region;  // found among the profile's ranges
    EXPECT_LE(region["saves"].get<double>(), least);        // in order
    least = region["saves"];
    const bool once = region["region"] == "embed_norm" || region["region"] == "pool_normalize";
    EXPECT_EQ(region["calls"], once ? 1 : 6) << region;
  }
  EXPECT_LE(share, 1);
}

TEST_F(CliProfile, ErrorsNameTheNextStep) {
  const auto expect_error = [](const std::string& args, const std::string& text) {
    const Ran ran = profile(args);
    EXPECT_EQ(ran.code, 1) << args << '\n' << ran.out;
    expect_text(ran, text);
  };
  expect_error("rop_f32", "there is no workload 'rop_f32'; did you mean 'rope_f32'");
  expect_error("minilim", "did you mean 'minilm'?");
  expect_error("", "workload is required");
  expect_error("rope_f32 --calls 0", "--calls");
  expect_error("rope_f32 --ranges '('", "--ranges: came '(', which is not a regular expression");
  expect_error("rope_f32 --trace /no/such/folder/x.json", "nothing can be written");
  expect_error("rope_f32 --flame /tmp", "--flame: came '/tmp', which is a folder");
  expect_error("rope_f32 --axis rows", "--axis: came 'rows'; expected name=value");
  expect_error("minilm --axis batch=2", "the model has --batch and --length instead");
  expect_error("minilm --model /no/such", "no MiniLM model in /no/such");
}

}  // namespace
}  // namespace graft
