// Fork, exit, and the environment.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "runtime/helpers.h"

namespace graft::test {
namespace {

at::Tensor chain(const at::Tensor& x) {
  return (x * 2 + 1).relu() - x;
}

/// Runs one test of this program in a process of its own, with stderr in the answer.
struct Ran {
  int status;
  std::string output;
};
Ran run_alone(const std::string& test, const std::string& environment) {
  std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  std::string command = environment + " GTEST_TOTAL_SHARDS=1 GTEST_SHARD_INDEX=0 timeout 120 " +
                        self + " --gtest_also_run_disabled_tests --gtest_filter=" + test + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  Ran ran;
  char buffer[4096];
  while (size_t got = fread(buffer, 1, sizeof buffer, pipe)) ran.output.append(buffer, got);
  ran.status = pclose(pipe);
  return ran;
}

int in_child(const std::function<void()>& work) {
  pid_t child = fork();
  if (child == 0) {
    alarm(60);
    work();
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Process, DISABLED_OneThatExitsWhileCompiling) {
  for (int i = 0; i < 8; ++i) {
    static auto* keep = new std::vector<decltype(compile(chain, Options{}))>;
    keep->push_back(compile(chain, Options{}));
    keep->back()(at::randn({3, 4 + i}));
  }
  if (const char* delay = getenv("GRAFT_TEST_DELAY_MS"))
    std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(delay)));
  std::exit(0);
}
/// LLVM's static variables, of which the first compilations make some, are alive until it ends.
TEST(Process, ExitWhileCompiling) {
  for (const int delay : {0, 2, 5, 10, 20, 40})
    EXPECT_EQ(run_alone("Process.DISABLED_OneThatExitsWhileCompiling",
                        "GRAFT_TEST_DELAY_MS=" + std::to_string(delay))
                  .status,
              0)
        << delay;
}

/// Made before main, so destroyed after all that libtorch makes when it is first used.
struct Last {
  std::function<void()> f;
  ~Last() {
    if (f) f();
  }
} g_last;

TEST(Process, DISABLED_OneThatCallsFunctionsWhileItExits) {
  auto f = compile(chain, at_once()), never_called = compile(chain, at_once());
  warm_up(f, at::randn({3, 4}));
  g_last.f = [=]() mutable {
    const at::Tensor x = at::ones({3, 4});
    if (f(x).equal(chain(x)) && never_called(x).equal(chain(x))) std::cout << "both are eager\n";
  };
  std::exit(0);
}
TEST(Process, FunctionsAreEagerFromExitOn) {
  const Ran ran = run_alone("Process.DISABLED_OneThatCallsFunctionsWhileItExits", "");
  EXPECT_EQ(ran.status, 0) << ran.output;
  EXPECT_NE(ran.output.find("both are eager"), std::string::npos) << ran.output;
}

TEST(Process, AForkedChildUsesPlansAndMakesNewOnes) {
  at::set_num_threads(1);  // libgomp's own pool does not survive a fork
  auto f = compile(chain, at_once());
  at::Tensor x = at::randn({8, 8});
  warm_up(f, x);
  EXPECT_EQ(in_child([&] {
              EXPECT_TRUE(same(f(x), chain(x)));
              at::Tensor wide = at::randn({8, 9, 2}).transpose(0, 1);
              for (int i = 0; i < 4; ++i) EXPECT_TRUE(same(f(wide), chain(wide)));
              EXPECT_EQ(f.report().plans, 2);
            }),
            0);
}

TEST(Process, AForkedChildTakesUpWhatWasBeingCompiled) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer knows no new threads in a child";
#endif
  at::set_num_threads(1);
  Options options;
  options.race = false;
  for (int round = 0; round < 5; ++round) {
    auto f = compile(chain, options);
    at::Tensor x = at::randn({8, 8 + round});
    f(x);
    EXPECT_EQ(in_child([&] {
                EXPECT_TRUE(same(f(x), chain(x)));
                f.wait();
                for (int i = 0; i < 3; ++i) EXPECT_TRUE(same(f(x), chain(x)));
                EXPECT_EQ(f.report().verdict, Verdict::Faster);
              }),
              0)
        << round;
    f.wait();
  }
}

TEST(Process, DISABLED_OneThatIsDisabled) {
  auto f = compile(chain, at_once());
  at::Tensor x = at::randn({8});
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(same(f(x), chain(x)));
  EXPECT_EQ(f.report().records, 0);
}
/// The process's threads of that name.
int threads_named(const std::string& name) {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string found;
    std::getline(std::ifstream(task.path() / "comm"), found);
    count += found == name;
  }
  return count;
}

/// One that stayed would keep its team of OpenMP's threads, beside which others wait asleep.
TEST(Process, TheCompilingThreadEndsWithItsLastJob) {
  auto compiled = compile(chain);
  for (int round = 0; round < 3; ++round) {
    compiled(at::randn({round + 2, 7}));
    compiled.wait();
    for (int tries = 0; threads_named("graft-compile") > 0 && tries < 1000; ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(threads_named("graft-compile"), 0);
  }
  EXPECT_GT(compiled.report().plans, 0);
}

TEST(Process, GraftDisable) {
  Ran ran = run_alone("Process.DISABLED_OneThatIsDisabled", "GRAFT_DISABLE=1");
  EXPECT_EQ(ran.status, 0) << ran.output;
}

TEST(Process, DISABLED_OneThatCompiles) {
  auto f = compile(chain, at_once("my function"));
  at::Tensor x = at::randn({8}), y = at::randn({9});
  for (int i = 0; i < 4; ++i) f(x);
  f(y);
  auto broken =
      compile([](const at::Tensor& t) { return t * t.sum().item<float>(); }, at_once("broken"));
  broken(x);
}
TEST(Process, LogsByTopic) {
  Ran ran = run_alone("Process.DISABLED_OneThatCompiles",
                      "GRAFT_LOGS=graph_breaks,recompiles,fusion,codegen,cache,typo");
  EXPECT_EQ(ran.status, 0);
  for (const char* part :
       {"graft: warning: GRAFT_LOGS: no topic \"typo\"",
        "graft: graph_breaks: broken: aten::_local_scalar_dense",
        "graft: recompiles: my function: recorded again: argument 0: sizes [8] expected, [9] came",
        "graft: fusion: my function: 4 operators fused", "graft: codegen: my function: kernel ",
        "graft: cache: my function: kernel "})
    EXPECT_NE(ran.output.find(part), std::string::npos) << part << " in\n" << ran.output;
  Ran quiet = run_alone("Process.DISABLED_OneThatCompiles", "GRAFT_LOGS=");
  EXPECT_EQ(quiet.output.find("graft: "), std::string::npos) << quiet.output;
}

TEST(Process, TraceDirectory) {
  namespace fs = std::filesystem;
  fs::path top = fs::temp_directory_path() / ("graft-trace-" + std::to_string(getpid()));
  Ran ran = run_alone("Process.DISABLED_OneThatCompiles", "GRAFT_TRACE=" + top.string());
  EXPECT_EQ(ran.status, 0) << ran.output;
  EXPECT_EQ(fs::status(top).permissions() & fs::perms::mask, fs::perms::owner_all);
  std::string names;
  for (const auto& entry : fs::recursive_directory_iterator(top))
    names += entry.path().filename().string() + "\n";
  for (const char* part :
       {"my_function-", "trace.txt", "00-lower.txt", "operators.txt", "report.txt", ".ll", ".s"})
    EXPECT_NE(names.find(part), std::string::npos) << part << " in\n" << names;
  fs::remove_all(top);
  Ran bad = run_alone("Process.DISABLED_OneThatCompiles", "GRAFT_TRACE=/proc/nowhere");
  EXPECT_EQ(bad.status, 0) << bad.output;
  EXPECT_NE(bad.output.find("graft: warning: GRAFT_TRACE"), std::string::npos) << bad.output;
}

}  // namespace
}  // namespace graft::test
