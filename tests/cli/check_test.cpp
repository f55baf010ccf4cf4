// graft check: its table, its file and its exit codes.
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/command.h"

namespace graft::test {
namespace {

TEST(Check, ExactNumericsAreBitwise) {
  const Folder folder;
  const std::string path = folder.file("check.json");
  const Ran ran = graft("check rope_f32 swiglu_f32 --small --quiet --threads 1 --json " + path);
  ASSERT_EQ(ran.code, 0) << ran.out;
  for (const char* part : {"rope_f32", "swiglu_f32", "compiled", "bitwise", "good"})
    EXPECT_NE(ran.out.find(part), std::string::npos) << part << '\n' << ran.out;
  EXPECT_EQ(ran.out.find("qkv_rope"), std::string::npos) << ran.out;

  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file);
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["context"]["numerics"], "exact");
  EXPECT_EQ(json["context"]["threads"], 1);
  std::vector<std::string> rows;
  for (const auto& row : json["results"]) {
    rows.push_back(row["name"].get<std::string>() + '/' + row["variant"].get<std::string>());
    if (row["variant"] != "graft") continue;
    EXPECT_EQ(row["ran"], "compiled") << row["name"];
    EXPECT_EQ(row["accuracy"]["bitwise"], true) << row["name"];
    EXPECT_EQ(row["good"], true);
    EXPECT_EQ(row["accuracy"]["all"]["fp64"]["nearer"], "same");
    EXPECT_GT(row["accuracy"]["all"]["fp64"]["reference"]["max"].get<double>(), 0);
  }
  EXPECT_EQ(rows, (std::vector<std::string>{"rope_f32/graft", "rope_f32/hand", "swiglu_f32/graft",
                                            "swiglu_f32/hand"}));
}

TEST(Check, FastNumericsAreAsGood) {
  const Ran ran =
      graft("check --filter 'rmsnorm_bf16|swiglu_bf16' --small --quiet --numerics fast --verbose");
  ASSERT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(ran.out.find("swiglu_bf16: graft (candidate) against eager (reference)"),
            std::string::npos)
      << ran.out;
  EXPECT_NE(ran.out.find("share"), std::string::npos) << ran.out;     // the histogram
  EXPECT_NE(ran.out.find("BFloat16"), std::string::npos) << ran.out;  // the tensors
  EXPECT_NE(ran.out.find("largest absolute difference at tensor"), std::string::npos) << ran.out;
}

TEST(Check, ExitCodeOfWorseResults) {
  const std::string swiglu = "check swiglu_bf16 --small --quiet --numerics fast";
  EXPECT_EQ(graft(swiglu).code, 0);
  const Ran ran = graft(swiglu + " --bitwise");
  EXPECT_EQ(ran.code, 2) << ran.out;
  EXPECT_NE(ran.out.find("1 of 1 not good"), std::string::npos) << ran.out;
  EXPECT_EQ(graft("check swiglu_bf16 --small --quiet --bitwise").code, 0);
}

TEST(Check, AxesAndSeeds) {
  const Ran ran = graft("check --small --quiet --seed 7 --axis rows=1,2 swiglu_f32");
  ASSERT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(ran.out.find("swiglu_f32[rows=1]"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("swiglu_f32[rows=2]"), std::string::npos) << ran.out;
}

TEST(Check, UsageErrors) {
  expect_usage_error("check swiglu",
                     "there is no workload 'swiglu'; did you mean 'swiglu_bf16' or 'swiglu_f32' or "
                     "'swiglu_train_f32'?");
  expect_usage_error("check --filter ropef32", "did you mean 'rope_f32'?");
  expect_usage_error("check rope_f32 --filter gptq", "none of the workloads named matches");
  expect_usage_error("check --json /no/such/folder/x.json", "No such file or directory");
  expect_usage_error("check --numerics faast", "did you mean 'fast'?");
}

}  // namespace
}  // namespace graft::test
