// graft report from outside: what it prints and writes, and its errors.

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
using nlohmann::json;
using test::Ran;

Ran report(const std::string& args) {
  return test::graft("report " + args);
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

json row(const std::string& variant, double ms) {
  json samples = json::array();
  for (int i = 0; i < 12; ++i) samples.push_back(ms * (1 + 0.001 * i));
  return {{"name", "rope"}, {"variant", variant}, {"threads", 1}, {"samples_ms", samples}};
}

/// A folder with a run, which goes with the test.
class CliReport : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("graft_report_test_" + std::to_string(getpid()));
    fs::create_directories(folder_);
    json graft = row("graft", 1);
    graft["bitwise"] = true;
    graft["max_abs_diff"] = 0.0;
    graft["compile_ms"] = 30;
    run_ = {{"schema_version", 1},
            {"context", {{"cpu", "a CPU"}, {"threads", 1}}},
            {"results", {row("eager", 4), graft, row("hand", 2)}}};
    write("run.json", run_.dump());
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(file(name)) << content;
  }
  void expect_error(const std::string& args, const std::string& text) const {
    const Ran ran = report(args);
    EXPECT_EQ(ran.code, 1) << args << '\n' << ran.out;
    EXPECT_TRUE(has(ran.out, text)) << args << '\n' << ran.out;
  }

  fs::path folder_;
  json run_;
};

TEST_F(CliReport, PrintsTheSummary) {
  const Ran ran = report(file("run.json"));
  EXPECT_EQ(ran.code, 0);
  EXPECT_TRUE(has(ran.out, "# run\n")) << ran.out;
  EXPECT_TRUE(has(ran.out, "- graft against eager: 4.00x; 1 faster")) << ran.out;
  EXPECT_TRUE(has(ran.out, "10 calls")) << ran.out;
}

TEST_F(CliReport, WritesThePageAndTheText) {
  const Ran ran =
      report(file("run.json") + " --html " + file("out.html") + " --markdown " + file("out.md"));
  ASSERT_EQ(ran.code, 0) << ran.out;
  EXPECT_TRUE(has(read(file("out.html")), "</html>"));
  EXPECT_TRUE(has(read(file("out.md")), "| rope"));
  EXPECT_FALSE(has(ran.out, "| rope")) << ran.out;
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 3);
}

TEST_F(CliReport, WritesArtifacts) {
  const Ran ran = report(file("run.json") + " --artifacts " + file("new/folder"));
  ASSERT_EQ(ran.code, 0) << ran.out;
  EXPECT_EQ(json::parse(read(file("new/folder/env_info.json"))), run_["context"]);
  const auto variants = [&](const std::string& name) {
    std::string out;
    const json parsed = json::parse(read(file("new/folder/" + name)));
    for (const json& result : parsed["results"]) out += result["variant"].get<std::string>() + ' ';
    return out;
  };
  EXPECT_EQ(variants("baseline.json"), "eager ");
  EXPECT_EQ(variants("compiled.json"), "graft ");
  EXPECT_EQ(variants("numerical_check.json"), "graft hand ");
  const json check = json::parse(read(file("new/folder/numerical_check.json")))["results"];
  EXPECT_EQ(check[0]["bitwise"], true);
  EXPECT_EQ(check[0]["reference"], "eager");
  EXPECT_TRUE(check[1]["bitwise"].is_null());
  EXPECT_TRUE(has(read(file("new/folder/summary.md")), "| rope"));
  // The files are runs themselves.
  EXPECT_EQ(report(file("new/folder/baseline.json")).code, 0);
}

TEST_F(CliReport, SetsSeveralRunsSideBySide) {
  run_["results"][1] = row("graft", 0.5);
  fs::create_directories(folder_ / "b");
  write("b/run.json", run_.dump());
  const std::string both = file("run.json") + ' ' + file("b/run.json");
  const Ran ran = report(both);
  EXPECT_EQ(ran.code, 0);
  EXPECT_TRUE(has(ran.out, "# From " + file("run.json") + " to " + file("b/run.json"))) << ran.out;
  EXPECT_EQ(report(both + " --artifacts " + file("out")).code, 0);
  EXPECT_TRUE(fs::exists(file("out/run/baseline.json")));
  EXPECT_TRUE(fs::exists(file("out/run-2/baseline.json")));
}

TEST_F(CliReport, ErrorsNameTheFileAndTheNextStep) {
  expect_error("", "runs is required");
  expect_error(file("none.json"), "none.json: No such file");
  write("cut.json", run_.dump().substr(0, 100));
  expect_error(file("cut.json"), "cut.json: not JSON, or cut off");
  write("newer.json", R"({"schema_version": 99, "results": []})");
  expect_error(file("newer.json"), "schema version 99, this graft reads up to 1; use the graft");
  expect_error(file("run.json") + " --memory " + file("run.json") + " --html " + file("x.html"),
               "run.json: no timeline");
  expect_error(file("run.json") + " --memory " + file("run.json"), "no timeline");
  expect_error(file("run.json") + " --html /no/such/folder/x.html", "could not write");
  expect_error(file("run.json") + " --html " + folder_.string(), "which is a folder");
  expect_error(file("run.json") + " --artifacts " + file("run.json"), "cannot be made a folder");
  EXPECT_FALSE(fs::exists(file("x.html")));  // an error leaves nothing
}

}  // namespace
}  // namespace graft
