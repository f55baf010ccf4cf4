// Several processes: how they are started, how they end, and what summing over them costs.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

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
  const int taken = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t length = sizeof address;
  ASSERT_EQ(bind(taken, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(listen(taken, 1), 0);
  ASSERT_EQ(getsockname(taken, reinterpret_cast<sockaddr*>(&address), &length), 0);
  const std::string port = std::to_string(ntohs(address.sin_port));
  expect_usage_error("launch -n 2 --port " + port + " true", "port " + port + " cannot be");
  close(taken);
}

/// A training step, compiled in each of two processes, has the losses of one with the whole batch.
TEST(Workers, TrainAsOneProcessDoes) {
  const std::string asked =
      R"({"layers":1,"width":24,"heads":3,"vocabulary":53,"context":9,"batch":4,"losses":6,"trials":2})";
  std::vector<std::vector<double>> losses;
  for (const char* count : {"1", "2"}) {
    const Folder folder;
    const Ran ran = graft(std::string("launch -n ") + count + " " + GRAFT_BINARY_DIR +
                              "/graft worker training_times '" + asked + "' " + folder.file(""),
                          "GRAFT_CACHE_DIR=off ");
    ASSERT_EQ(ran.code, 0) << ran.out;
    losses.push_back(formats::read_json(folder.file("0.json")).at("losses"));
  }
  ASSERT_EQ(losses[0].size(), 6u);
  for (size_t k = 0; k < 6; ++k) EXPECT_NEAR(losses[0][k], losses[1][k], 1e-4) << k;
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
