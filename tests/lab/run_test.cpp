#include "lab/run.h"
#include "formats/files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

namespace graft::lab {
namespace {

Row row(std::string variant, std::vector<double> samples, std::string rows = "8") {
  Row r;
  r.name = "norm";
  r.variant = std::move(variant);
  r.config = {{"rows", std::move(rows)}, {"dtype", "f32"}};
  r.samples_ms = std::move(samples);
  return r;
}

Run sample() {
  Run run;
  run.context = {{"cpu", "x"}};
  run.rows = {row("eager", {2, 2.1, 2, 2.2, 2, 2.1}), row("graft", {1, 1.1, 1, 1, 1.2, 1}),
              row("eager", {4, 4, 4}, "16")};
  run.rows[1].work = {.flops = 1e6, .bytes = 2e6};
  run.rows[1].memory = {100, 200, 300};
  run.rows[1].compile_ms = 5;
  run.rows[1].isolated = true;
  run.rows.push_back(row("hand", {}));
  run.rows.back().status = Status::Crashed;
  run.rows.back().error = "signal 11";
  return run;
}

std::string refusal(const std::string& text) {
  const auto path = std::filesystem::temp_directory_path() / ("run" + std::to_string(getpid()));
  std::ofstream(path) << text;
  try {
    read_run(path);
  } catch (const RunFileError& error) {
    std::filesystem::remove(path);
    return error.what();
  }
  std::filesystem::remove(path);
  return "";
}

TEST(Run, ComesBackFromJson) {
  const lab::Run run = sample(), back = run_from_json(to_json(run), "here");
  EXPECT_EQ(to_json(back), to_json(run));
  ASSERT_EQ(back.rows.size(), 4u);
  EXPECT_EQ(back.rows[1].memory.peak_resident, 300);
  EXPECT_EQ(back.rows[1].work.bytes, 2e6);
  EXPECT_TRUE(back.rows[1].isolated);
  EXPECT_EQ(back.rows[3].status, Status::Crashed);
}

TEST(Run, SaysWhatFollowsFromTheSamples) {
  const auto json = to_json(sample());
  const auto& graft = json["results"][1];
  EXPECT_EQ(graft["median_ms"], 1.0);
  EXPECT_EQ(graft["ratio"]["to"], "eager");
  EXPECT_NEAR(graft["ratio"]["ratio"].get<double>(), 2.05, 1e-9);
  EXPECT_EQ(graft["ratio"]["class"], "excellent");
  EXPECT_DOUBLE_EQ(graft["computed"]["flops_per_s"].get<double>(), 1e9);
  EXPECT_FALSE(json["results"][0].contains("ratio"));
  EXPECT_TRUE(json["results"][3]["median_ms"].is_null());
}

TEST(Run, CasesAreWorkloadAndConfiguration) {
  const lab::Run run = sample();
  EXPECT_EQ(run.cases(),
            (std::vector<std::string>{"norm[dtype=f32,rows=8]", "norm[dtype=f32,rows=16]"}));
  EXPECT_EQ(run.reference("norm[dtype=f32,rows=16]"), &run.rows[2]);
  EXPECT_EQ(run.find("norm[dtype=f32,rows=16]", "graft"), nullptr);
}

TEST(Run, RefusesWhatIsNoRun) {
  EXPECT_NE(refusal("{\"schema_version\": 1, \"resu").find("cut off"), std::string::npos);
  EXPECT_NE(refusal("").find("expected a file"), std::string::npos);
  EXPECT_NE(refusal("[1]").find("no list 'results'"), std::string::npos);
  EXPECT_NE(refusal(R"({"results": []})").find("schema_version"), std::string::npos);
  EXPECT_NE(refusal(R"({"schema_version": 99, "results": []})").find("newer"), std::string::npos);
  EXPECT_NE(refusal(R"({"schema_version": 1, "results": [{"name": "x"}]})").find("result 0"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"schema_version": 1, "results": [
      {"name": "x", "variant": "y", "samples_ms": [-1]}]})")
                .find("negative"),
            std::string::npos);
  EXPECT_THROW(read_run("/nowhere/run.json"), RunFileError);
}

TEST(Run, AFileIsWrittenWholeOrNotAtAll) {
  EXPECT_THROW(formats::write_file("/nowhere/x.json", "{}"), std::runtime_error);
  const auto folder = std::filesystem::temp_directory_path() / ("full" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string path = folder / "run.json";
  formats::write_file(path, "old");
  // As on a disk that is full: no file may grow beyond a page.
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_THROW(formats::write_file(path, std::string(1 << 20, 'x')), std::runtime_error);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  EXPECT_EQ(text, "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace graft::lab
