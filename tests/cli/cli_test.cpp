// The command from outside: what it prints, its exit codes, and the form of its files.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "support/command.h"

namespace graft::test {
namespace {

namespace fs = std::filesystem;

TEST(Cli, ListsWorkloads) {
  const Ran ran = graft("list");
  EXPECT_EQ(ran.code, 0) << ran.out;
  for (const char* name : {"rope_f32", "gptq_block", "tiny_rope_f32"})
    EXPECT_NE(ran.out.find(name), std::string::npos);
  EXPECT_EQ(ran.out.find('\x1b'), std::string::npos);  // no colours into a pipe
}

TEST(Cli, ListsASet) {
  const std::string usual = graft("list").out, wild = graft("list --set wild").out;
  EXPECT_EQ(usual.find("heat_f32"), std::string::npos) << usual;
  EXPECT_NE(usual.find("graft list --set wild"), std::string::npos) << usual;
  EXPECT_NE(wild.find("heat_f32"), std::string::npos) << wild;
  EXPECT_EQ(wild.find("rope_f32"), std::string::npos) << wild;
}

TEST(Cli, VersionAndHelp) {
  EXPECT_EQ(graft("--version").out.substr(0, 6), "graft ");
  EXPECT_EQ(graft("--version").code, 0);
  const Ran help = graft("--help");
  EXPECT_EQ(help.code, 0);
  for (const char* name : {"bench", "list", "explain", "env", "demo", "tune"})
    EXPECT_NE(help.out.find(name), std::string::npos);
}

/// The machine is measured once, into the folder that is asked for.
TEST(Cli, MeasuresTheMachineOnce) {
  const Folder folder;
  auto kept = [&] {
    std::string text;
    if (fs::exists(folder.file("cache")))
      for (const auto& entry : fs::directory_iterator(folder.file("cache"))) {
        EXPECT_EQ(entry.path().filename().string().find("machine-"), 0u) << entry.path();
        std::ifstream file(entry.path());
        text.append(std::istreambuf_iterator<char>(file), {});
      }
    return text;
  };
  EXPECT_EQ(graft("explain tiny_rope_f32 --small", "GRAFT_CACHE_DIR=off ").code, 0);
  EXPECT_EQ(kept(), "");
  const std::string here = "GRAFT_CACHE_DIR=" + folder.file("cache") + " ";
  EXPECT_EQ(graft("explain tiny_rope_f32 --small", here).code, 0);
  const std::string first = kept();
  if (first.empty()) GTEST_SKIP() << "the machine is busy, so it was not measured";
  EXPECT_NE(first.find("memory_byte"), std::string::npos) << first;
  EXPECT_EQ(graft("explain tiny_rope_f32 --small", here).code, 0);
  EXPECT_EQ(kept(), first);
  EXPECT_EQ(graft("explain tiny_rope_f32 --small", "GRAFT_CACHE_DIR=/proc/none ").code, 0);
}

TEST(Cli, EnvironmentAsJson) {
  const Ran ran = graft("env --json");
  ASSERT_EQ(ran.code, 0) << ran.out;
  const auto json = nlohmann::json::parse(ran.out);
  for (const char* key : {"cpu", "flags", "threads", "caches", "memory_bytes", "aten_cpu", "torch",
                          "graft", "compiler"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
}

TEST(Cli, UsageErrorsNameWhatCameAndTheNextStep) {
  expect_usage_error("", "A subcommand is required");
  expect_usage_error("bnech", "there is no subcommand 'bnech'; did you mean 'bench'?");
  expect_usage_error("bench --fliter rope", "--fliter");
  expect_usage_error("bench --filter '('", "came '(', which is not a regular expression");
  expect_usage_error("bench --filter ropef32",
                     "no workload matches 'ropef32'; did you mean 'rope_f32'?");
  for (const char* command : {"bench", "list", "check"})
    expect_usage_error(std::string(command) + " --set wlid",
                       "--set: came 'wlid'; the sets are regions, wild, training, attention, "
                       "decode, models, systems.");
  expect_usage_error("bench --filter heat", "choose it with --set wild");
  expect_usage_error("bench --set wild --filter swiglu", "choose it with --set regions");
  expect_usage_error("bench --variants eagr", "--variants: came 'eagr'; did you mean 'eager'?");
  expect_usage_error("bench --threads 0", "--threads: Value 0 not in range 1 to 1024");
  expect_usage_error("bench --numerics faast",
                     "--numerics: came 'faast'; did you mean 'fast'? Expected one of exact, fast.");
  expect_usage_error(
      "bench --mode reduce-latency",
      "came 'reduce-latency'; expected one of default, max-autotune, reduce-overhead.");
  expect_usage_error("bench --variants graft_reduced", "--variants: came 'graft_reduced'; ");
  expect_usage_error("bench --json /no/such/folder/x.json", "No such file or directory");
  expect_usage_error("bench --json /", "which is a folder");
  expect_usage_error("bench --peers --python /no/such/python", "Name one with --python EXE");
  for (const char* command : {"explain", "tune"})
    expect_usage_error(std::string(command) + " cholesky",
                       "there is no workload 'cholesky'; did you mean 'cholesky_f32'?");
  expect_usage_error("explain", "workload is required");
  expect_usage_error("tune rope_f32 --json /", "--json: came '/', which is a folder");
  expect_usage_error("tune rope_f32 --most 0", "--most: Value 0 not in range 1 to 100000");
}

TEST(Cli, BenchWritesItsSchema) {
  const Folder folder;
  const std::string path = folder.file("out.json");
  const Ran ran = graft(
      "bench --small --min-time 0.01 --quiet --threads 1 --filter '^(rope_f32|component_f32)$' "
      "--json " +
      path);
  ASSERT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(ran.out.find("geometric mean, graft against eager"), std::string::npos) << ran.out;
  EXPECT_EQ(folder.size(), 1u);  // no temporary file is left

  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file);
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["context"]["threads"], 1);
  std::vector<std::string> rows;
  for (const auto& row : json["results"]) {
    rows.push_back(row["name"].get<std::string>() + '/' + row["variant"].get<std::string>());
    EXPECT_EQ(row["threads"], 1);
    EXPECT_GT(row["median_ms"].get<double>(), 0);
    EXPECT_GE(row["samples_ms"].size(), 10u);
    EXPECT_TRUE(row["bitwise"].is_boolean());
    EXPECT_TRUE(row["max_abs_diff"].is_number());
    const bool compiled = row["variant"] == "graft";
    for (const char* key : {"first_call_ms", "compile_ms", "kernels"}) {
      ASSERT_TRUE(row.contains(key)) << key;
      EXPECT_EQ(row[key].is_number(), compiled) << row["variant"] << ' ' << key;
    }
    EXPECT_EQ(row.contains("verdict"), compiled);
  }
  const std::vector<std::string> expected{
      "rope_f32/eager",      "rope_f32/eager_pool",      "rope_f32/graft",     "rope_f32/hand",
      "component_f32/eager", "component_f32/eager_pool", "component_f32/graft"};
  EXPECT_EQ(rows, expected);
}

TEST(Cli, BenchMeasuresOnlyTheVariantsAsked) {
  const Ran ran =
      graft("bench --small --min-time 0.01 --filter '^rope_f32$' --variants eager,hand");
  ASSERT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(ran.out.find("[1/1] rope_f32\n"), std::string::npos)
      << ran.out;  // progress in a log: a plain line
  EXPECT_EQ(ran.out.find("geometric mean"), std::string::npos) << ran.out;
}

/// A stand-in for Python: speaks as tools/peers/inductor.py does, and answers each case with
/// `answer`.
std::string fake_python(const Folder& folder, const std::string& answer) {
  const std::string path = folder.file("python");
  std::ofstream(path) << "#!/bin/sh\necho '{\"peer\": \"torch.compile\", \"version\": \"9.9\", "
                         "\"protocol\": 1}'\nwhile read name; do "
                      << answer << "; done\n";
  fs::permissions(path, fs::perms::owner_all);
  return path;
}

TEST(Cli, BenchShowsPeers) {
  const Folder folder;
  const std::string python = fake_python(
      folder,
      R"(echo '{"samples_ms": [1.5, 2.5, 3.5], "first_call_ms": 9000, "compile_ms": 8997.5, "kernels": 2,)"
      R"( "bitwise": false, "max_abs_diff": 0.25}')");
  const std::string path = folder.file("out.json");
  const Ran ran =
      graft("bench --small --min-time 0.01 --quiet --filter '^rope_f32$' --peers --python " +
            python + " --json " + path);
  ASSERT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(ran.out.find("torch.compile ms"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("geometric mean, graft_alone against torch.compile"), std::string::npos)
      << ran.out;
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file);
  EXPECT_EQ(json["context"]["peers"]["torch.compile"], "9.9");
  const auto found = std::ranges::find_if(
      json["results"], [](const auto& r) { return r["variant"] == "torch.compile"; });
  ASSERT_NE(found, json["results"].end());
  const auto& row = *found;
  EXPECT_EQ(row["median_ms"], 2.5);
  EXPECT_EQ(row["first_call_ms"], 9000);
  EXPECT_EQ(row["kernels"], 2);
  EXPECT_EQ(row["bitwise"], false);
}

TEST(Cli, BenchSurvivesAPeersDeath) {
  const Folder folder;
  const std::string python = fake_python(folder, "exit 3");
  const Ran ran = graft(
      "bench --small --min-time 0.01 --quiet --filter 'rope_f32$' --peers --python " + python);
  ASSERT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(ran.out.find("torch.compile, 2 cases: it ended without an answer"), std::string::npos)
      << ran.out;
}

TEST(Cli, ExplainShowsTheReport) {
  const Ran ran = graft("explain rope_f32 --small");
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(ran.out.find("rope_f32: "), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("argument 0 -> f32[2,3,37,44]"), std::string::npos) << ran.out;
  EXPECT_EQ(ran.out.find("graft_kernel_0"), std::string::npos) << "the source has its own flag";
}

TEST(Cli, ExplainTakesAxesAndThreads) {
  const Ran ran = graft("explain rope_f32 --small --axis batch=5 --threads 1");
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(ran.out.find("argument 0 -> f32[5,3,37,44]"), std::string::npos) << ran.out;
  expect_usage_error("explain rope_f32 --small --axis batch", "name=value");
}

TEST(Cli, ExplainShowsWhatWasDecidedByCost) {
  const std::string part = "== decisions ==", steps = graft("explain rmsnorm_bf16 --small").out;
  ASSERT_NE(steps.find(part), std::string::npos) << steps;
  const Ran ran = graft("explain --decisions rmsnorm_bf16 --small");
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_EQ(ran.out.find("pass     about"), 0u) << ran.out;
  EXPECT_NE(ran.out.find("fuse     %3 + %6"), std::string::npos) << ran.out;
  EXPECT_EQ(steps.substr(steps.find(part) + part.size() + 1, ran.out.size()), ran.out)
      << "few decisions: the part shows all of them";
}

TEST(Cli, TuneTriesTheOtherWays) {
  const Folder folder;
  const std::string file = folder.file("tune.json");
  const Ran ran = graft("tune rmsnorm_bf16 --small --quick --json " + file);
  ASSERT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(ran.out.find("the other way is"), std::string::npos) << ran.out;
  const auto json = nlohmann::json::parse(std::ifstream(file));
  EXPECT_EQ(json["workload"], "rmsnorm_bf16");
  EXPECT_TRUE(json["decisions"].is_object());
  ASSERT_GE(json["tried"].size(), 4u);  // of fuse and vectors, and those of inline
  const std::string all = std::to_string(json["tried"].size());
  EXPECT_NE(ran.out.find("Of " + all + " decisions, " + all + " were tried"), std::string::npos)
      << ran.out;
  int timed = 0;
  for (const auto& tried : json["tried"]) {
    EXPECT_NE(tried["taken"], tried["way"]);
    EXPECT_GT(tried["estimated"], 0.0);
    if (tried["outcome"] != "") continue;  // as for the same schedule: not timed
    ++timed;
    EXPECT_GT(tried["measured"]["ratio"], 0.0);
  }
  EXPECT_GT(timed, 0) << ran.out;
}

TEST(Cli, TuneTriesAsManyAsAsked) {
  const Ran ran = graft("tune rmsnorm_bf16 --small --quick --quiet --most 1");
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(ran.out.find(" decisions, 1 were tried"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("--all tries the others, too."), std::string::npos) << ran.out;
}

TEST(Cli, ExplainPrintsTheKernelsAsSource) {
  const Ran ran = graft("explain --source rope_f32 --small");
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_EQ(ran.out.find("// Printed by Graft"), 0u) << ran.out;
  EXPECT_NE(ran.out.find("extern \"C\" void graft_kernel_0("), std::string::npos) << ran.out;
  EXPECT_EQ(ran.out.find("\n== "), std::string::npos) << ran.out;
}

}  // namespace
}  // namespace graft::test
