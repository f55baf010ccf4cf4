// What goes wrong: processes that are killed, full disks, damaged files.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <torch/csrc/autograd/variable.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <random>
#include <thread>

#include "systems/states/page_file.h"
#include "tests/systems/states_support.h"

extern char** environ;

namespace graft::systems::test {
namespace {

using testing::HasSubstr;

constexpr int64_t kFaultBudget = 3 * 10 * 4096;
constexpr const char* kChildFile = "GRAFT_TEST_STATES_FILE";

OffloadOptions options_of(const std::string& file) {
  return {.file = file, .budget_bytes = kFaultBudget, .lr = 0.01};
}

std::string message_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

void train(const std::string& file, int64_t steps) {
  auto parameters = small_model();
  OffloadedAdamW adamw(parameters, options_of(file));
  for (int64_t i = 0; i < steps; ++i) train_step(parameters, adamw);
}

/// Flips a bit of the byte there; twice, it is as before.
void damage(const std::string& file, int64_t offset) {
  const int fd = ::open(file.c_str(), O_RDWR);
  unsigned char byte = 0;
  ASSERT_EQ(::pread(fd, &byte, 1, offset), 1);
  byte ^= 0x40;
  ASSERT_EQ(::pwrite(fd, &byte, 1, offset), 1);
  ::close(fd);
}

// Run by the test below as a process of its own, until it is killed.
TEST(StatesKilled, DISABLED_Child) {
  const char* file = std::getenv(kChildFile);
  if (file == nullptr) GTEST_SKIP() << kChildFile << " is not set";
  train(file, 1 << 20);
}

TEST(StatesKilled, HoldTheStepThatTheFileNames) {
  const StateFileName name;
  const std::string variable = std::string(kChildFile) + "=" + name();
  std::vector<char*> environment;
  for (char** e = environ; *e != nullptr; ++e) environment.push_back(*e);
  environment.push_back(const_cast<char*>(variable.c_str()));
  environment.push_back(nullptr);
  const char* const arguments[] = {"/proc/self/exe", "--gtest_filter=StatesKilled.DISABLED_Child",
                                   "--gtest_also_run_disabled_tests", "--gtest_output=", nullptr};
  InMemory memory{.options = options_of(name())};
  int64_t made = 0;
  std::mt19937 random(7);
  for (int kill = 0; kill < 5; ++kill) {
    pid_t child = 0;
    ASSERT_EQ(posix_spawn(&child, "/proc/self/exe", nullptr, nullptr,
                          const_cast<char* const*>(arguments), environment.data()),
              0);
    // From before the file is open to amid hundreds of steps.
    std::this_thread::sleep_for(std::chrono::milliseconds(50 + random() % 700));
    ::kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: " << WEXITSTATUS(status);
    if (!std::filesystem::exists(name())) continue;
    auto parameters = small_model();
    OffloadedAdamW adamw(parameters, options_of(name()));
    ASSERT_GE(adamw.committed(), made);
    for (; made < adamw.committed(); ++made) memory.train_step(made);
    ASSERT_EQ(difference(memory, parameters, adamw), "") << "after kill " << kill;
  }
  EXPECT_GT(made, 0) << "no child came to its first step";
}

TEST(StatesOnAFullDisk, SayWhatIsNeededAndLeaveNothing) {
  const StateFileName name;
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit little{.rlim_cur = 64 * 4096, .rlim_max = before.rlim_max};
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &little);
  const std::string said = message_of([&] { train(name(), 1); });
  setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  EXPECT_THAT(said, HasSubstr(name()));
  EXPECT_THAT(said, HasSubstr("bytes: File too large"));
  EXPECT_THAT(said, HasSubstr("are free there; make room"));
  EXPECT_FALSE(std::filesystem::exists(name()));
  EXPECT_FALSE(std::filesystem::exists(name() + ".new"));

  const StateFileName folder;
  std::filesystem::create_directory(folder());
  if (::mount("tmpfs", folder().c_str(), "tmpfs", 0, "size=256k") != 0)
    GTEST_SKIP() << "a file system of 256 KiB could not be mounted: that needs root";
  const std::string full = message_of([&] { train(folder() + "/states", 1); });
  const bool left = !std::filesystem::is_empty(folder());
  ::umount(folder().c_str());
  EXPECT_THAT(full, HasSubstr("No space left on device, 262144 bytes are free there"));
  EXPECT_FALSE(left);
}

TEST(StatesOnAFullDisk, KeepTheStepBeforeAWriteThatFailed) {
  const StateFileName name;
  InMemory memory{.options = options_of(name())};
  auto parameters = small_model();
  OffloadedAdamW adamw(parameters, options_of(name()));
  const auto both = [&](int64_t step) {
    train_step(parameters, adamw);
    memory.train_step(step);
  };
  both(0);
  both(1);
  adamw.wait();
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit little{.rlim_cur = 40 * 4096, .rlim_max = before.rlim_max};
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &little);
  const std::string said = message_of([&] {
    train_step(parameters, adamw);
    adamw.wait();
  });
  const std::string again = message_of([&] { train_step(parameters, adamw); });
  setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  EXPECT_THAT(said, HasSubstr(name()));
  EXPECT_THAT(said, HasSubstr("File too large"));
  EXPECT_THAT(said, HasSubstr("the step before stays in the file"));
  EXPECT_EQ(again, said) << "an optimizer that failed goes on";
  EXPECT_EQ(adamw.committed(), 2);
  adamw.restore();
  EXPECT_EQ(difference(memory, parameters, adamw), "");
  both(2);
  EXPECT_EQ(difference(memory, parameters, adamw), "");
  EXPECT_EQ(adamw.committed(), 3);
}

TEST(StatesOfADamagedFile, AreNeverUsed) {
  const StateFileName name;
  train(name(), 3);
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(name()));
  const StateFileName copy;
  int used = 0;
  std::vector<int64_t> offsets = {0, 8, 40, 100, 4096 + 24, 2 * 4096 + 24, 3 * 4096 + 24};
  for (int64_t offset = 3 * 4096; offset < bytes; offset += 11 * 4096 + 1001)
    offsets.push_back(offset);
  for (const int64_t offset : offsets) {
    std::filesystem::copy_file(name(), copy(), std::filesystem::copy_options::overwrite_existing);
    damage(copy(), offset);
    InMemory memory{.options = options_of(copy())};
    auto parameters = small_model();
    // Either the damage is where nothing of the last step lies, or it is named.
    const std::string said = message_of([&] {
      OffloadedAdamW adamw(parameters, options_of(copy()));
      for (int64_t i = 0; i < adamw.steps(); ++i) memory.train_step(i);
      EXPECT_GE(adamw.steps(), 2);  // a damaged commit record leaves the one before
      train_step(parameters, adamw);
      memory.train_step(adamw.steps() - 1);
      EXPECT_EQ(difference(memory, parameters, adamw), "") << "damaged at " << offset;
      ++used;
    });
    if (!said.empty()) {
      EXPECT_THAT(said, HasSubstr(copy() + " is ")) << said;
    }
  }
  EXPECT_GT(used, 0);
}

TEST(StatesOfADamagedFile, MayBeOpenedAtTheStepBefore) {
  const StateFileName name;
  train(name(), 3);
  OffloadOptions options = options_of(name());
  std::string said;
  // From the end, the last page that step 3 needs: step 2's slot of the same group stays whole.
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(name()));
  for (int64_t offset = bytes - 4096 * 2; said.empty() && offset > 0; offset -= 4096) {
    damage(name(), offset);
    auto parameters = small_model();
    said = message_of([&] { OffloadedAdamW adamw(parameters, options); });
    if (said.empty()) damage(name(), offset);  // back again
  }
  EXPECT_THAT(said, HasSubstr("at_step = 2"));
  options.at_step = 1;
  auto parameters = small_model();
  EXPECT_THAT(message_of([&] { OffloadedAdamW adamw(parameters, options); }),
              HasSubstr("holds step 3 and not step 1"));
  options.at_step = 2;
  OffloadedAdamW adamw(parameters, options);
  InMemory memory{.options = options};
  for (int64_t i = 0; i < 4; ++i) memory.train_step(i);
  for (int64_t i = 2; i < 4; ++i) train_step(parameters, adamw);
  EXPECT_EQ(difference(memory, parameters, adamw), "");
}

std::string bytes_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(StatesOfAKilledReturn, MayBeOpenedAtEachOfBothSteps) {
  const StateFileName name;
  train(name(), 3);
  std::string bytes = bytes_of(name());
  OffloadOptions options = options_of(name());
  options.at_step = 2;
  {
    auto parameters = small_model();
    const OffloadedAdamW adamw(parameters, options);
  }
  // Killed when step 2 was committed again, and nothing of step 3 was erased yet.
  constexpr size_t kRecords = 4096, kRecordBytes = 2 * 4096;
  bytes.replace(kRecords, kRecordBytes, bytes_of(name()).substr(kRecords, kRecordBytes));
  for (const int64_t step : {2, 3}) {
    std::ofstream(name(), std::ios::binary) << bytes;
    options.at_step = step;
    auto parameters = small_model();
    OffloadedAdamW adamw(parameters, options);
    EXPECT_EQ(adamw.committed(), step);
    InMemory memory{.options = options};
    for (int64_t i = 0; i < 5; ++i) memory.train_step(i);
    for (int64_t i = step; i < 5; ++i) train_step(parameters, adamw);
    EXPECT_EQ(difference(memory, parameters, adamw), "");
  }
}

TEST(StatesPageFile, KeepsItsNameWhileOthersTidyUp) {
  const StateFileName name;
  std::atomic<bool> done = false;
  std::thread other([&] {
    while (!done) states::remove_abandoned(name());
  });
  int made = 0;
  for (int i = 0; i < 20000; ++i) {
    try {
      const states::PageFile file(name(), FileAccess::Cached, true);
      ++made;
      EXPECT_TRUE(std::filesystem::exists(name()));
      std::filesystem::remove(name());
    } catch (const c10::Error&) {  // the other thread had it
      states::remove_abandoned(name());
    }
    if (HasFailure()) break;
  }
  done = true;
  other.join();
  EXPECT_GT(made, 0);
}

TEST(StatesOfAnotherRun, LeaveNoHookWhereOneIsForeign) {
  const StateFileName name, elsewhere;
  auto parameters = small_model(), others = small_model();
  const OffloadedAdamW first({others[3]}, options_of(name()));
  parameters[3] = others[3];
  EXPECT_THAT(message_of([&] { OffloadedAdamW second(parameters, options_of(elsewhere())); }),
              HasSubstr("parameter 3 has a post-accumulate-gradient hook already"));
  EXPECT_FALSE(std::filesystem::exists(elsewhere()));
  for (size_t i = 0; i < parameters.size(); ++i)
    EXPECT_EQ(torch::autograd::impl::post_acc_grad_hooks(parameters[i]) != nullptr, i == 3);
}

TEST(StatesOfAnotherRun, AreNotOverwritten) {
  const StateFileName name;
  auto parameters = small_model();
  {
    const OffloadedAdamW adamw(parameters, options_of(name()));
    auto others = small_model();
    EXPECT_THAT(message_of([&] { OffloadedAdamW second(others, options_of(name())); }),
                HasSubstr("is in use by another optimizer"));
    OffloadOptions elsewhere = options_of(name() + "x");
    EXPECT_THAT(message_of([&] { OffloadedAdamW second(parameters, elsewhere); }),
                HasSubstr("hook already"));
    std::filesystem::remove(elsewhere.file);
  }
  auto fewer = small_model(at::kFloat, 5);
  EXPECT_THAT(message_of([&] { OffloadedAdamW adamw(fewer, options_of(name())); }),
              HasSubstr("is of 12 parameters, and 10 were given"));
  auto rounded = small_model(at::kBFloat16);
  EXPECT_THAT(message_of([&] { OffloadedAdamW adamw(rounded, options_of(name())); }),
              HasSubstr("its parameter 0 has 3721 elements of Float, the one given has 3721 of "
                        "BFloat16"));
  OffloadOptions less = options_of(name());
  less.budget_bytes = 3 * 4 * 4096;
  EXPECT_THAT(message_of([&] { OffloadedAdamW adamw(parameters, less); }),
              HasSubstr("raise it, or name another file"));
}

}  // namespace
}  // namespace graft::systems::test
