// Starts workers, reads what they say, and reports.
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "fuzz/watchdog.h"
#include "fuzz/worker.h"

namespace graft::fuzz {

namespace {

/// How long a worker may be silent, its watchdog too: it may need this to start, or to write down
/// what its threads do.
constexpr int kMostSilence = 120;
constexpr int kReducedAnyway = 3;

using Clock = std::chrono::steady_clock;

struct Child {
  pid_t pid = -1;
  int out = -1;
};

/// This program again, with the batch's environment, its output in a pipe.
Child start(const std::vector<std::string>& arguments, const Config& config) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  std::fflush(nullptr);
  Child child{fork(), ends[0]};
  if (child.pid == 0) {
    dup2(ends[1], STDOUT_FILENO);
    int quiet = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(quiet, STDERR_FILENO);
    if (config.capability.empty())
      unsetenv("ATEN_CPU_CAPABILITY");
    else
      setenv("ATEN_CPU_CAPABILITY", config.capability.c_str(), 1);
    std::vector<char*> argv;
    std::string self = "graft_fuzz";
    argv.push_back(self.data());
    std::vector<std::string> kept = arguments;
    for (std::string& argument : kept) argv.push_back(argument.data());
    argv.push_back(nullptr);
    execv("/proc/self/exe", argv.data());
    _exit(127);
  }
  close(ends[1]);
  return child;
}

/// Does nothing come for kMostSilence seconds, in each of which this process was awake?
bool is_silent(pollfd& waiting) {
  for (int seconds = 0; seconds < kMostSilence;) {
    const Clock::time_point before = Clock::now();
    if (poll(&waiting, 1, 1000) != 0) return false;
    if (Clock::now() - before < std::chrono::seconds(2)) ++seconds;
  }
  return true;
}

std::string ending(int status) {
  if (WIFSIGNALED(status)) return std::string("crashed: ") + strsignal(WTERMSIG(status));
  return "ended with " + std::to_string(WEXITSTATUS(status));
}

class Driver {
 public:
  explicit Driver(const Settings& settings) : settings_(settings), start_(Clock::now()) {}

  int run() {
    uint64_t next = settings_.seed;
    while (!done()) {
      uint64_t last = (next / kBatch + 1) * kBatch;
      if (settings_.programs >= 0)
        last = std::min(last, settings_.seed + static_cast<uint64_t>(settings_.programs));
      if (last <= next) break;
      next = batch(next, last);
    }
    for (auto& [kind, count] : kinds_)
      std::printf("%s %lld, ", kind.c_str(), static_cast<long long>(count));
    std::printf("in %.0f s\n%lld passed, %lld failed\n", seconds(), static_cast<long long>(passed_),
                static_cast<long long>(failed_));
    return failed_ == 0 ? 0 : hung_ ? 3 : 1;
  }

 private:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  bool done() const {
    if (settings_.seconds > 0 && seconds() >= settings_.seconds) return true;
    return settings_.programs >= 0 && passed_ + failed_ >= settings_.programs;
  }

  /// Gives the seed to go on with.
  uint64_t batch(uint64_t first, uint64_t last) {
    std::vector<std::string> arguments = {"--worker", std::to_string(first), std::to_string(last),
                                          "--limit", std::to_string(settings_.limit)};
    for (const char* flag : flags()) arguments.emplace_back(flag);
    if (settings_.hang) arguments.emplace_back("--hang");
    Child child = start(arguments, config_of(first, settings_));
    bool running = false, killed = false;
    uint64_t seed = first;
    std::string buffer;
    for (bool open = true; open;) {
      pollfd waiting{child.out, POLLIN, 0};
      if (is_silent(waiting)) {
        kill(child.pid, SIGKILL);
        killed = true;
        break;
      }
      char bytes[4096];
      ssize_t n = read(child.out, bytes, sizeof bytes);
      open = n > 0;
      if (n > 0) buffer.append(bytes, static_cast<size_t>(n));
      for (size_t end; (end = buffer.find('\n')) != std::string::npos; buffer.erase(0, end + 1)) {
        std::string line = buffer.substr(0, end);
        if (line.starts_with("@ ")) {
          seed = std::strtoull(line.c_str() + 2, nullptr, 10);
          running = true;
        } else if (line.starts_with("+ ") || line.starts_with("! ")) {
          running = false;
          finished(seed, line);
          // The time is up: what the worker still has to do, or has begun, is not waited for.
          if (done()) {
            kill(child.pid, SIGKILL);
            killed = true, open = false;
            break;
          }
        }
      }
    }
    close(child.out);
    int status = 0;
    waitpid(child.pid, &status, 0);
    bool hung = WIFEXITED(status) && WEXITSTATUS(status) == kHungStatus;
    if (!running) return killed || hung || status == 0 ? seed + 1 : broken(seed, status);
    finished(seed, "! " + (killed ? "hung for " + std::to_string(kMostSilence) +
                                        " s, and its watchdog with it"
                                  : ending(status)));
    return seed + 1;
  }

  /// The worker ended between programs: the next one is not to blame, nor are we to spin here.
  uint64_t broken(uint64_t seed, int status) {
    finished(seed, "! after this program, the process " + ending(status));
    return seed + 1;
  }

  void finished(uint64_t seed, const std::string& line) {
    if (line[0] == '+') {
      ++passed_;
      std::string kind = line.substr(2, line.find(' ', 2) - 2);
      ++kinds_[kind];
      if (settings_.verbose)
        std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), line.c_str() + 2);
      return;
    }
    ++failed_;
    bool hung = line.starts_with("! hung");
    hung_ = hung_ || hung;
    Config config = config_of(seed, settings_);
    std::string text_of_flags;
    for (const char* flag : flags()) text_of_flags += std::string(" ") + flag;
    std::printf(
        "\nFAILED seed %llu (ATEN_CPU_CAPABILITY=%s, %d thread%s%s): %s\n  graft_fuzz --programs 1 "
        "--seed %llu%s\n",
        static_cast<unsigned long long>(seed),
        config.capability.empty() ? "best" : config.capability.c_str(), config.threads,
        config.threads > 1 ? "s" : "", config.fast ? ", fast" : "", line.c_str() + 2,
        static_cast<unsigned long long>(seed), text_of_flags.c_str());
    // Of one that hangs, each smaller program would have to be waited for.
    if (!hung && (settings_.reduce || failed_ <= kReducedAnyway)) show_reduced(seed);
    std::fflush(stdout);
  }

  /// Of the settings that change what a program is run as.
  std::vector<const char*> flags() const {
    std::vector<const char*> all;
    if (settings_.fast) all.push_back("--fast");
    if (settings_.gradients) all.push_back("--gradients");
    return all;
  }

  void show_reduced(uint64_t seed) {
    std::vector<std::string> arguments = {"--reduce-seed", std::to_string(seed)};
    for (const char* flag : flags()) arguments.emplace_back(flag);
    Child child = start(arguments, config_of(seed, settings_));
    std::string text;
    char bytes[4096];
    for (ssize_t n; (n = read(child.out, bytes, sizeof bytes)) > 0;)
      text.append(bytes, static_cast<size_t>(n));
    close(child.out);
    int status = 0;
    waitpid(child.pid, &status, 0);
    std::printf("reduced: %s%s", text.c_str(),
                WIFSIGNALED(status) ? ("reducing " + ending(status) + "\n").c_str() : "");
  }

  const Settings& settings_;
  const Clock::time_point start_;
  int64_t passed_ = 0, failed_ = 0;
  bool hung_ = false;
  std::map<std::string, int64_t> kinds_;
};

}  // namespace

int run_driver(const Settings& settings) {
  return Driver(settings).run();
}

}  // namespace graft::fuzz
