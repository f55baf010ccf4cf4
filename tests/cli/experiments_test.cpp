// The experiments as commands: what they write, how they go on, and what they refuse.

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "formats/files.h"
#include "support/command.h"

namespace graft::test {
namespace {

using nlohmann::json;

class Experiments : public testing::Test {
 protected:
  Ran run(const std::string& args) const { return graft(args, "GRAFT_CACHE_DIR=off "); }
  json file(const std::string& name) const { return formats::read_json(folder_.file(name)); }
  static std::set<std::string> sections(const json& run) {
    std::set<std::string> out;
    for (const json& section : run.at("context").at("sections")) out.insert(section.at("id"));
    return out;
  }
  static const json* find(const json& run, const std::string& name, const std::string& variant) {
    for (const json& row : run.at("results"))
      if (row.at("name") == name && row.at("variant") == variant) return &row;
    return nullptr;
  }

  Folder folder_;
};

struct Known {
  const char* command;
  std::set<std::string> sections;
  std::vector<std::pair<const char*, const char*>> rows;
};

TEST_F(Experiments, WriteTheirTablesRowsAndPages) {
  const Known all[] = {
      {"llama",
       {"forward", "boundaries", "regions", "operations", "lengths", "training", "pretrained"},
       {{"llama_forward", "eager"},
        {"llama_forward", "graft"},
        {"llama_forward", "graft_rope"},
        {"llama_forward", "graft_surgical"},
        {"llama_forward", "graft_surgical_attention"},
        {"llama_step", "graft_surgical"}}},
      {"spd",
       {"model", "components", "decomposition"},
       {{"spd_model", "graft_reduce_overhead"}, {"spd_component", "graft"}}},
      {"lm",
       {"sweep", "warm-up", "kernels", "memory", "accumulation", "autocast", "learning"},
       {{"lm_forward", "graft"}, {"lm_backward", "graft_regions"}, {"lm_step", "graft"}}}};
  for (const Known& known : all) {
    SCOPED_TRACE(known.command);
    const std::string name = known.command;
    const Ran ran = run(name + " --small --quiet --trials 3 --json " +
                        folder_.file(name + ".json") + " --html " + folder_.file(name + ".html") +
                        " --markdown " + folder_.file(name + ".md"));
    ASSERT_EQ(ran.code, 0) << ran.out;
    const json written = file(name + ".json");
    EXPECT_EQ(sections(written), known.sections);
    for (const auto& [workload, variant] : known.rows) {
      const json* row = find(written, workload, variant);
      ASSERT_NE(row, nullptr) << workload << ' ' << variant;
      EXPECT_EQ(row->at("status"), "ok") << row->at("error");
      EXPECT_GE(row->at("samples_ms").size(), 3u);
    }
    const std::string page = formats::read_file(folder_.file(name + ".html"));
    for (const std::string& id : known.sections) {
      EXPECT_NE(page.find("<section id=\"" + id + '"'), std::string::npos) << id;
    }
    EXPECT_NE(page.find("<svg"), std::string::npos);
    EXPECT_NE(formats::read_file(folder_.file(name + ".md")).find("## "), std::string::npos);
    EXPECT_EQ(
        run("report " + folder_.file(name + ".json") + " --html " + folder_.file("again.html"))
            .code,
        0);
  }
}

TEST_F(Experiments, GoOnWhereTheyWere) {
  const std::string command =
      "spd --small --quiet --trials 3 --no-decomposition --json " + folder_.file("spd.json");
  ASSERT_EQ(run(command).code, 0);
  json before = file("spd.json");
  // As if it had been stopped: one case is missing.
  json kept = json::array();
  for (const json& row : before["results"])
    if (row.at("name") == "spd_model") kept.push_back(row);
  const json model = kept.at(0);
  before["results"] = kept;
  std::ofstream(folder_.file("spd.json")) << before.dump();
  const Ran again = run(command + " --resume");
  ASSERT_EQ(again.code, 0) << again.out;
  const json after = file("spd.json");
  EXPECT_NE(find(after, "spd_component", "graft"), nullptr);
  EXPECT_EQ(find(after, "spd_model", "eager")->at("samples_ms"), model.at("samples_ms"))
      << "what was done is not done again";
  const Ran other = run(command + " --resume --seed 1");
  EXPECT_EQ(other.code, 1);
  EXPECT_NE(other.out.find("--resume"), std::string::npos) << other.out;
  const Ran without = run("lm --small --resume");
  EXPECT_EQ(without.code, 1);
  EXPECT_NE(without.out.find("--json"), std::string::npos) << without.out;
}

TEST_F(Experiments, TheModelThatLearnsIsResumedWithItsBits) {
  const Ran ran = run("lm --small --quiet --no-sweep --json " + folder_.file("lm.json") +
                      " --checkpoints " + folder_.file("points"));
  ASSERT_EQ(ran.code, 0) << ran.out;
  const json section = file("lm.json").at("context").at("sections").at(0);
  ASSERT_EQ(section.at("rows").size(), 2u);
  for (const json& row : section.at("rows")) EXPECT_EQ(row.back().at(0), "the same") << row;
  for (const char* name : {"eager.safetensors", "graft.safetensors"})
    EXPECT_TRUE(std::filesystem::exists(folder_.file(std::string("points/") + name)));
}

TEST_F(Experiments, SayWhatIsWrongBeforeAnyWork) {
  const std::pair<const char*, const char*> wrong[] = {
      {"llama --size minn", "mini"},
      {"llama --hidden 100 --heads 8", "multiple of 16"},
      {"llama --heads 8 --kv-heads 3", "divisor of 8"},
      {"llama --dtype f61", "f32, bf16, fp8"},
      {"llama --head tide", "none, tied, untied"},
      {"llama --small --json /nowhere/x.json", "/nowhere"},
      {"llama --small --model /nowhere", "config.json"},
      {"llama --small --text /nowhere", "/nowhere"},
      {"spd --dtype f8", "f32, f16 or bf16"},
      {"spd --form modul", "pure or module"},
      {"spd --mode max-autotun", "max-autotune"},
      {"spd --batch_size 0", "batch_size"},
      {"lm --model smal", "small"},
      {"lm --precision bf17", "bf16"},
      {"lm --parts backwards", "backward"},
      {"lm --context 1", "context"},
  };
  for (const auto& [args, says] : wrong) {
    const Ran ran = run(args);
    EXPECT_EQ(ran.code, 1) << args;
    EXPECT_NE(ran.out.find(says), std::string::npos) << args << ": " << ran.out;
  }
}

TEST_F(Experiments, WhatDoesNotFitIsARowThatSaysSo) {
  const Ran ran =
      run("lm --model 2.7b --layers 900 --context 512 --precision f32 --parts step "
          "--no-learning --quiet --json " +
          folder_.file("lm.json"));
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(ran.out.find("eager needs about"), std::string::npos) << ran.out;
  EXPECT_EQ(find(file("lm.json"), "lm_step", "eager")->at("status"), "skipped");
}

TEST_F(Experiments, ClaimsArePutToTheTest) {
  const Ran list = run("systems --list");
  EXPECT_EQ(list.code, 0) << list.out;
  const std::string claims = "sparse_24 number_formats states_interleaved checkpointing_compiled";
  const Ran ran = run("systems " + claims + " --small --quiet --trials 3 --json " +
                      folder_.file("s.json") + " --html " + folder_.file("s.html"));
  ASSERT_EQ(ran.code, 0) << ran.out;
  const json written = file("s.json");
  EXPECT_EQ(sections(written),
            (std::set<std::string>{"claims", "sparse_24", "number_formats", "states_interleaved",
                                   "checkpointing_compiled"}));
  for (const json& section : written.at("context").at("sections")) {
    EXPECT_FALSE(section.at("rows").empty()) << section.at("id");
    if (section.at("id") == "claims") {
      EXPECT_EQ(section.at("rows").size(), 4u);
    }
  }
  expect_usage_error("systems sparse_42", "did you mean 'sparse_24'");
  EXPECT_NE(list.out.find("ring_attention"), std::string::npos) << list.out;
}

}  // namespace
}  // namespace graft::test
