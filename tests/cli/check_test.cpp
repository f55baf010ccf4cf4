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

TEST(Check, StepsOfTraining) {
  const Folder folder;
  const std::string path = folder.file("check.json");
  const Ran ran = graft(
      "check --filter 'step|spd|adamw' --steps 12 --small --quiet --threads 1 --verbose --json " +
      path);
  ASSERT_EQ(ran.code, 0) << ran.out;
  for (const char* part :
       {"gpt2_step_f32: losses of eager", "spd_train_f32: losses of eager", "eager on 2 threads",
        "weights 1 ulp off", "train nothing: adamw_gpt2_f32"})
    EXPECT_NE(ran.out.find(part), std::string::npos) << part << '\n' << ran.out;

  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file);
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["context"]["steps"], 12);
  ASSERT_EQ(json["results"].size(), 2u);
  for (const auto& row : json["results"]) {
    EXPECT_EQ(row["ran"], "compiled") << row["name"];
    EXPECT_EQ(row["good"], true);
    EXPECT_EQ(row["other_threads"], 2);
    const auto &eager = row["losses"]["eager"], &ours = row["losses"]["graft"];
    ASSERT_EQ(eager.size(), 12u);
    ASSERT_EQ(ours.size(), 12u);
    EXPECT_EQ(row["losses"]["eager_other_threads"].size(), 12u);
    EXPECT_NE(row["losses"]["eager_one_ulp"], eager);
    EXPECT_LT(eager[11], eager[0]) << "it learns";
    int64_t other_bits = 0;
    for (size_t i = 0; i < 12; ++i) {
      other_bits += eager[i] != ours[i];
      EXPECT_NEAR(eager[i].get<double>(), ours[i].get<double>(), 1e-4) << i;
    }
    EXPECT_EQ(row["differences"]["graft"]["steps_with_other_bits"], other_bits);
  }
}

TEST(Check, ExitCodeOfLossesThatGoElsewhere) {
  // Fast numerics leaves out roundings to bf16, which eager makes on any number of threads.
  const std::string mlp = "check mlp_bf16_autocast --small --quiet --threads 1 --steps 20";
  EXPECT_EQ(graft(mlp).code, 0);
  const Ran ran = graft(mlp + " --numerics fast");
  EXPECT_EQ(ran.code, 2) << ran.out;
  EXPECT_NE(ran.out.find("1 of 1 not good: losses further from eager's"), std::string::npos)
      << ran.out;
  EXPECT_EQ(graft(mlp + " --numerics fast --bitwise").code, 2);
}

TEST(Check, UsageErrors) {
  expect_usage_error("check swiglu",
                     "there is no workload 'swiglu'; did you mean 'swiglu_bf16' or 'swiglu_f32' or "
                     "'swiglu_train_f32'?");
  expect_usage_error("check --filter ropef32", "did you mean 'rope_f32'?");
  expect_usage_error("check rope_f32 --filter gptq", "none of the workloads named matches");
  expect_usage_error("check --json /no/such/folder/x.json", "No such file or directory");
  expect_usage_error("check --numerics faast", "did you mean 'fast'?");
  expect_usage_error("check rope_f32 --small --steps 3", "--steps: came for rope_f32, which train");
  expect_usage_error("check --steps 0", "--steps");
}

}  // namespace
}  // namespace graft::test
