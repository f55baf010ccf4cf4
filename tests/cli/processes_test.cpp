// Several processes: how they are started, how they end, and what summing over them costs.
#include <nlohmann/json.hpp>
#include <string>

#include "formats/files.h"
#include "support/command.h"

namespace graft::test {
namespace {

using nlohmann::json;

bool has(const Ran& ran, const std::string& text) {
  return ran.out.find(text) != std::string::npos;
}

TEST(Launch, GivesEachItsPlaceAndSaysWhoSpeaks) {
  const Ran ran =
      graft("launch -n 3 --threads 2 sh -c 'echo $RANK of $WORLD_SIZE, $OMP_NUM_THREADS threads'");
  EXPECT_EQ(ran.code, 0);
  for (const char* line :
       {"[0] 0 of 3, 2 threads\n", "[1] 1 of 3, 2 threads\n", "[2] 2 of 3, 2 threads\n"})
    EXPECT_TRUE(has(ran, line)) << ran.out;
}

TEST(Launch, OneThatFailsEndsTheOthers) {
  const Ran ran = graft("launch -n 2 sh -c 'test $RANK = 0 && exit 7; sleep 60'");
  EXPECT_EQ(ran.code, 7);
  EXPECT_TRUE(has(ran, "process 0 of 2 ended with status 7; ending the others")) << ran.out;
}

TEST(Launch, OneThatIsKilledEndsTheOthersThatListenToNothing) {
  const Ran ran = graft(
      "launch -n 2 --grace 0.2 sh -c 'trap \"\" TERM; test $RANK = 1 && kill -KILL $$; sleep 60 & "
      "wait'");
  EXPECT_EQ(ran.code, 128 + 9);
  EXPECT_TRUE(has(ran, "process 1 of 2 was ended by signal 9")) << ran.out;
}

TEST(Launch, RefusesWhatCannotBeStarted) {
  expect_usage_error("launch -n 0 true", "processes");
  expect_usage_error("launch -n 2 /no/such/program", "cannot be started");
  const Ran ran = graft("launch -n 2 --port 1 true");  // root may listen there
  EXPECT_TRUE(ran.code == 0 || has(ran, "port 1 cannot be listened at")) << ran.out;
}

TEST(AllReduce, WritesItsTable) {
  const Folder folder;
  const Ran ran =
      graft("allreduce --small --quiet --processes 2,3 --json " + folder.file("a.json"));
  ASSERT_EQ(ran.code, 0) << ran.out;
  const json sections = formats::read_json(folder.file("a.json")).at("context").at("sections");
  ASSERT_EQ(sections.size(), 2u);
  for (const json& section : sections) EXPECT_EQ(section.at("rows").size(), 1u);
  const Ran large = graft("allreduce --small --quiet --size 100000");
  EXPECT_EQ(large.code, 0);
  EXPECT_TRUE(has(large, "skipped: 100000 MB in 2 processes needs")) << large.out;
}

TEST(AllReduce, AKilledProcessEndsIt) {
  const Ran ran = graft("allreduce --small --quiet --size 50 --trials 1000",
                        "( sleep 2; pkill -KILL -n -f 'worker sum_times' ) & timeout 60 ");
  EXPECT_NE(ran.code, 0);
  EXPECT_NE(ran.code, 124) << "it hung";
  EXPECT_TRUE(has(ran, "was ended by signal 9")) << ran.out;
}

}  // namespace
}  // namespace graft::test
