// `graft memory` from outside: its table, its files, and what it refuses.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "support/command.h"

namespace graft {
namespace {

namespace fs = std::filesystem;
using test::Ran;

Ran memory(const std::string& args) {
  return test::graft("memory " + args);
}

void expect_usage_error(const std::string& args, const std::string& text) {
  test::expect_usage_error("memory " + args, text);
}

class MemoryCommand : public testing::Test {
 protected:
  MemoryCommand() { fs::create_directories(folder_); }
  ~MemoryCommand() override { fs::remove_all(folder_); }
  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  static std::string content(const std::string& path) {
    std::ostringstream out;
    out << std::ifstream(path).rdbuf();
    return out.str();
  }

 private:
  fs::path folder_ =
      fs::temp_directory_path() / ("graft_cli_memory_test_" + std::to_string(getpid()));
};

TEST_F(MemoryCommand, ShowsBothVariants) {
  const Ran ran = memory("rope_f32 --small --threads 1 --json " + file("m.json") + " --svg " +
                         file("m.svg") + " --html " + file("m.html"));
  ASSERT_EQ(ran.code, 0) << ran.out;
  for (const char* text : {"memory sentinel passed", "peak allocated", "live at the peak of eager",
                           "aten::mul", "graft output 0", "3 calls of each variant"}) {
    EXPECT_NE(ran.out.find(text), std::string::npos) << text << '\n' << ran.out;
  }
  EXPECT_EQ(ran.out.find("Memory block of unknown size"), std::string::npos) << ran.out;

  const nlohmann::json json = nlohmann::json::parse(content(file("m.json")));
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["workload"], "rope_f32");
  EXPECT_GT(json["inputs"]["bytes"], 0);
  ASSERT_EQ(json["sentinel"].size(), 2u);
  for (const auto& sentinel : json["sentinel"]) EXPECT_EQ(sentinel["passed"], true);
  ASSERT_EQ(json["variants"].size(), 2u);
  int64_t outputs = 0;  // graft's
  for (const auto& tensor : json["storage"]["tensors"]) {
    if (tensor["name"].get<std::string>().starts_with("graft"))
      outputs += tensor["logical"].get<int64_t>();
  }
  EXPECT_GT(outputs, 0);
  for (const auto& variant : json["variants"]) {
    const auto& report = variant["memory"];
    EXPECT_GE(report["peak_bytes"].get<int64_t>(), outputs) << variant["variant"];
    EXPECT_GE(report["peak_reserved"], report["peak_bytes"]);
    EXPECT_EQ(report["end_bytes"], 0) << variant["variant"];  // a call leaves nothing behind
    EXPECT_EQ(report["allocations"].get<int64_t>() % 3, 0);   // each call does the same
    EXPECT_GT(report["timeline"].size(), 3u);
    EXPECT_FALSE(report["largest"].empty());
  }
  EXPECT_GT(json["variants"][0]["memory"]["allocations"],
            json["variants"][1]["memory"]["allocations"]);

  EXPECT_TRUE(content(file("m.svg")).starts_with("<svg "));
  EXPECT_NE(content(file("m.svg")).find("Memory of rope_f32"), std::string::npos);
  EXPECT_TRUE(content(file("m.html")).starts_with("<!doctype html>"));
}

TEST_F(MemoryCommand, PartsOfATrainingStep) {
  const Ran ran =
      memory("gpt2_step_f32 --small --quick --threads 1 --axis layers=2 --json " + file("m.json"));
  ASSERT_EQ(ran.code, 0) << ran.out;
  for (const char* text : {"range of eager", "forward/attention", "backward", "optimizer",
                           "made in", "each all of a storage"})
    EXPECT_NE(ran.out.find(text), std::string::npos) << text << '\n' << ran.out;
  EXPECT_EQ(ran.out.find("eager/forward"), std::string::npos) << ran.out;

  const nlohmann::json json = nlohmann::json::parse(content(file("m.json")));
  EXPECT_EQ(json["config"]["layers"], "2");
  const auto& memory = json["variants"][0]["memory"];
  std::vector<std::string> ranges;
  for (const auto& range : memory["ranges"]) {
    ranges.push_back(range["region"]);
    EXPECT_GT(range["peak_bytes"], 0);
    EXPECT_LE(range["peak_bytes"], memory["peak_bytes"]);
  }
  EXPECT_EQ(ranges, (std::vector<std::string>{"eager", "eager/forward", "eager/forward/attention",
                                              "eager/backward", "eager/optimizer"}));
}

TEST_F(MemoryCommand, SentinelAlone) {
  const Ran ran = memory("--sentinel --json " + file("s.json"));
  ASSERT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(ran.out.find("(c10's allocator)"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("(graft's pool)"), std::string::npos) << ran.out;
  const nlohmann::json json = nlohmann::json::parse(content(file("s.json")));
  EXPECT_LT(json["sentinel"][0]["error"], 0.001);
  EXPECT_LT(json["sentinel"][1]["error"], 0.001);
  EXPECT_FALSE(json.contains("variants"));
}

TEST_F(MemoryCommand, RefusesWhatItCannotDo) {
  expect_usage_error("", "expected a workload, one of 'graft list', or --sentinel");
  expect_usage_error("ropef32", "there is no workload 'ropef32'; did you mean 'rope_f32'?");
  expect_usage_error("rope_f32 --sentinel", "takes neither a workload");
  expect_usage_error("--sentinel --svg x.svg", "takes neither a workload");
  expect_usage_error("rope_f32 --svg /no/such/folder/x.svg",
                     "--svg: came '/no/such/folder/x.svg', but in '/no/such/folder'");
  expect_usage_error("rope_f32 --json /", "--json: came '/', which is a folder");
  expect_usage_error("rope_f32 --small --axis seq", "--axis: came 'seq'; expected name=value");
  expect_usage_error("rope_f32 --small --axis nosuch=3", "nosuch");
}

}  // namespace
}  // namespace graft
