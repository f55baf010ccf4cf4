// What only the laboratory's side of `graft bench` does: sweeps, presets, files, processes.
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "support/command.h"

namespace graft::test {
namespace {

const std::string kSmall = "bench --quiet --min-time 0.01 --small ";

nlohmann::json json_of(const std::string& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

TEST(Bench, SweepsAxesAndKeepsWhatConditionsSay) {
  const Folder folder;
  const std::string path = folder.file("run.json");
  const Ran ran = graft(kSmall +
                        "--filter 'swiglu_f32' --variants eager --axis rows=8,16 --axis "
                        "columns=8,32 --where 'columns>=rows' --json " +
                        path);
  ASSERT_EQ(ran.code, 0) << ran.out;
  std::vector<std::string> cases;
  const auto run = json_of(path);
  for (const auto& row : run["results"])
    cases.push_back(row["config"]["rows"].get<std::string>() + "x" +
                    row["config"]["columns"].get<std::string>());
  EXPECT_EQ(cases, (std::vector<std::string>{"8x8", "8x32", "16x32"}));
}

TEST(Bench, WrongSweepsAreNamed) {
  expect_usage_error("bench --axis rows", "--axis: came 'rows', expected NAME=VALUE");
  expect_usage_error("bench --filter swiglu --axis row=3",
                     "no chosen workload has an axis 'row'; did you mean 'rows'?");
  expect_usage_error("bench --filter swiglu --axis rows=many",
                     "expected a whole number of at least 1");
  expect_usage_error("bench --where 'rows'", "--where: came 'rows', expected AXIS RELATION VALUE");
  expect_usage_error("bench --filter swiglu --where 'rows<1'", "no case is left");
  expect_usage_error("bench --preset fast",
                     "--preset: came 'fast'; expected one of quick, default, strict");
  expect_usage_error("bench --resume", "name the run's file with --json");
}

TEST(Bench, MeasuresASetWithItsLowerBounds) {
  const Folder folder;
  const std::string path = folder.file("run.json");
  const Ran ran = graft(kSmall + "--set wild --filter '^(heat|lion)_f32$' --json " + path);
  ASSERT_EQ(ran.code, 0) << ran.out;
  std::map<std::string, double> bytes;
  const auto run = json_of(path);
  for (const auto& row : run["results"]) {
    EXPECT_EQ(row["status"], "ok") << row;
    bytes[row["name"].get<std::string>()] = row["work"]["bytes"].get<double>();
  }
  // Read and written once: a plate; parameters and momenta, with gradients that are read.
  EXPECT_EQ(bytes, (std::map<std::string, double>{{"heat_f32", 2 * 4 * 19 * 37},
                                                  {"lion_f32", 5 * 4 * 3 * 33 * 33}}));
}

TEST(Bench, AConfigFileIsOverriddenByFlags) {
  const Folder folder;
  std::ofstream(folder.file("c.toml")) << "filter = 'swiglu_f32'\nvariants = ['eager']\n"
                                          "preset = 'strict'\n[axis]\nrows = [8, 16]\n";
  const Ran dumped =
      graft("bench --config " + folder.file("c.toml") + " --preset quick --dump-config");
  ASSERT_EQ(dumped.code, 0) << dumped.out;
  EXPECT_NE(dumped.out.find("preset = 'quick'"), std::string::npos) << dumped.out;
  EXPECT_NE(dumped.out.find("rows=8,16"), std::string::npos) << dumped.out;
  std::ofstream(folder.file("again.toml")) << dumped.out;
  EXPECT_EQ(graft("bench --config " + folder.file("again.toml") + " --dump-config").out,
            dumped.out);
  std::ofstream(folder.file("bad.toml")) << "filtre = 'x'\n";
  expect_usage_error("bench --config " + folder.file("bad.toml"),
                     "has a key 'filtre'; did you mean 'filter'?");
  std::ofstream(folder.file("cut.toml")) << "filter = 'x\n";
  expect_usage_error("bench --config " + folder.file("cut.toml"), "cut.toml");
}

TEST(Bench, IsolatedVariantsHaveProcessesOfTheirOwn) {
  const Folder folder;
  const std::string path = folder.file("run.json");
  const Ran ran = graft(kSmall + "--isolate --filter '^rope_f32$' --json " + path);
  ASSERT_EQ(ran.code, 0) << ran.out;
  const auto rows = json_of(path)["results"];
  ASSERT_EQ(rows.size(), 4u);
  for (const auto& row : rows) {
    EXPECT_EQ(row["status"], "ok");
    EXPECT_TRUE(row["isolated"].get<bool>());
    EXPECT_GT(row["first_call_ms"].get<double>(), 0);
    EXPECT_TRUE(row["bitwise"].get<bool>());
  }
}

TEST(Bench, AVariantThatTakesTooLongIsARow) {
  const Folder folder;
  const std::string path = folder.file("run.json");
  const Ran ran = graft(
      "bench --quiet --isolate --timeout 0.2 --filter '^adamw_f32$' --variants eager --json " +
      path);
  ASSERT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(ran.out.find("give it more with --timeout"), std::string::npos) << ran.out;
  EXPECT_EQ(json_of(path)["results"][0]["status"], "timeout");
}

/// Kills the first process whose command line has both words, within ten seconds.
bool kill_process(const std::string& one, const std::string& other, int signal) {
  namespace fs = std::filesystem;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (std::chrono::steady_clock::now() < end) {
    for (const auto& entry : fs::directory_iterator("/proc")) {
      std::ifstream file(entry.path() / "cmdline");
      const std::string line{std::istreambuf_iterator<char>(file), {}};
      if (line.find(one) == std::string::npos || line.find(other) == std::string::npos) continue;
      return kill(std::stoi(entry.path().filename()), signal) == 0;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

TEST(Bench, ACrashIsARowAndNotTheEnd) {
  const Folder folder;
  const std::string path = folder.file("run.json");
  std::thread killer([] { EXPECT_TRUE(kill_process("bench-child", "\"seed\":987654", SIGSEGV)); });
  const Ran ran = graft(
      "bench --quiet --small --min-time 1 --isolate --seed 987654 --filter "
      "'^rope_f32$' --variants eager,graft --json " +
      path);
  killer.join();
  ASSERT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(ran.out.find("ended by signal 11"), std::string::npos) << ran.out;
  const auto rows = json_of(path)["results"];
  EXPECT_EQ(rows[0]["status"], "crashed");
  EXPECT_EQ(rows[1]["status"], "ok");
}

TEST(Bench, WhatCannotRunIsARowAndTheOthersGoOn) {
  const Folder folder;
  const std::string path = folder.file("run.json");
  // Tables of an odd head size do not fit; a width of 24 has no 7 heads.
  const Ran odd =
      graft(kSmall + "--filter '^rope_f32$' --variants eager,graft --axis head_size=63,64 --json " +
            path);
  ASSERT_EQ(odd.code, 0) << odd.out;
  std::vector<std::string> statuses;
  const auto first = json_of(path);
  for (const auto& row : first["results"]) statuses.push_back(row["status"]);
  EXPECT_EQ(statuses, (std::vector<std::string>{"failed", "failed", "ok", "ok"}));
  const Ran heads =
      graft(kSmall + "--filter '^block_f32$' --variants eager --axis heads=7,8 --json " + path);
  ASSERT_EQ(heads.code, 0) << heads.out;
  EXPECT_NE(heads.out.find("no multiple of heads 7"), std::string::npos) << heads.out;
  EXPECT_EQ(json_of(path)["results"][1]["status"], "ok");
}

TEST(Bench, WhatMemoryDoesNotAllowIsSkipped) {
  const Folder folder;
  const std::string path = folder.file("run.json");
  const Ran ran = graft(kSmall +
                        "--set attention --filter '^causal_attention_f32$' --variants eager "
                        "--axis sequence=20,10000000 --json " +
                        path);
  ASSERT_EQ(ran.code, 0) << ran.out;
  const auto rows = json_of(path)["results"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["status"], "ok");
  EXPECT_EQ(rows[1]["status"], "skipped");
  EXPECT_NE(rows[1]["error"].get<std::string>().find("of memory"), std::string::npos) << ran.out;
}

TEST(Bench, AStoppedRunGoesOn) {
  const Folder folder;
  const std::string path = folder.file("run.json"),
                    args = kSmall + "--variants eager --json " + path;
  ASSERT_EQ(graft(args + " --filter '^rope_f32$'").code, 0);
  auto before = json_of(path);
  before["results"][0]["samples_ms"] = {1, 2, 3, 4, 5};  // to be told from a second measurement
  std::ofstream(path) << before;
  const Ran ran = graft(args + " --resume --filter '^rope'");
  ASSERT_EQ(ran.code, 0) << ran.out;
  const auto rows = json_of(path)["results"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["samples_ms"], before["results"][0]["samples_ms"]);
  EXPECT_EQ(rows[1]["name"], "rope_bf16");
  expect_usage_error("bench --quick --json " + path + " --resume", "was measured with");
  std::ofstream(path) << "{\"schema_version\": 1, \"res";
  expect_usage_error(args + " --resume", "cut off");
}

TEST(Bench, RunsAreComparedGatedAndExported) {
  const Folder folder;
  const std::string path = folder.file("a.json"), slow = folder.file("b.json");
  ASSERT_EQ(graft(kSmall + "--filter '^rope_f32$' --json " + path).code, 0);
  auto run = json_of(path);
  for (auto& row : run["results"]) {  // times that no other program on the machine has a part in
    row["samples_ms"] = nlohmann::json::array();
    for (int i = 0; i < 20; ++i) row["samples_ms"].push_back(1 + 1e-4 * (i % 5));
  }
  std::ofstream(path) << run;
  EXPECT_EQ(graft("gate " + path + " --baseline " + path).code, 0);
  for (auto& row : run["results"])
    if (row["variant"] == "graft")
      for (auto& ms : row["samples_ms"]) ms = ms.get<double>() * 3;
  std::ofstream(slow) << run;
  const Ran gate = graft("gate " + slow + " --baseline " + path);
  EXPECT_EQ(gate.code, 2) << gate.out;
  EXPECT_NE(gate.out.find("regression"), std::string::npos) << gate.out;
  EXPECT_EQ(graft("compare " + slow + " " + path).code, 0);
  run["results"].erase(0);
  std::ofstream(slow) << run;
  EXPECT_EQ(graft("gate " + slow + " --strict --variants hand --baseline " + path).code, 0);
  EXPECT_EQ(graft("gate " + slow + " --strict --variants 'eager|hand' --baseline " + path).code, 3);
  expect_usage_error("gate " + path + " --variants nothing --baseline " + path,
                     "no case and variant in common");
  expect_usage_error("compare " + path + " " + folder.file("none.json"), "No such file");

  ASSERT_EQ(graft("export " + path + " --csv " + folder.file("a.csv") + " --google-benchmark " +
                  folder.file("g.json"))
                .code,
            0);
  EXPECT_EQ(json_of(folder.file("g.json"))["benchmarks"][0]["run_type"], "iteration");
  std::ifstream csv(folder.file("a.csv"));
  std::string line;
  int lines = 0;
  while (std::getline(csv, line)) ++lines;
  EXPECT_EQ(lines, 5);
  const Ran history = graft("history " + folder.file(""));
  EXPECT_EQ(history.code, 0) << history.out;
  EXPECT_NE(history.out.find("rope_f32"), std::string::npos);
  EXPECT_NE(history.out.find("left out"), std::string::npos) << "g.json is no run";
}

TEST(Bench, ResultsGoToAFolderThatCanBeWritten) {
  expect_usage_error("bench --csv /no/such/folder/x.csv", "--csv: came '/no/such/folder/x.csv'");
}

}  // namespace
}  // namespace graft::test
