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

#include "fuzz/worker.h"

namespace graft::fuzz {

namespace {

constexpr int kSecondsPerProgram = 60;
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
    return failed_ == 0 ? 0 : 1;
  }

 private:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  bool done() const {
    if (settings_.seconds > 0 && seconds() >= settings_.seconds) return true;
    return settings_.programs >= 0 && passed_ + failed_ >= settings_.programs;
  }

  /// Gives the seed to go on with.
  uint64_t batch(uint64_t first, uint64_t last) {
    Child child =
        start({"--worker", std::to_string(first), std::to_string(last)}, config_of(first));
    bool running = false, killed = false;
    uint64_t seed = first;
    std::string buffer;
    for (bool open = true; open;) {
      pollfd waiting{child.out, POLLIN, 0};
      if (poll(&waiting, 1, kSecondsPerProgram * 1000) == 0) {
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
    if (!running) return killed || status == 0 ? seed + 1 : broken(seed, status);
    finished(seed, "! " + (killed ? "hung for " + std::to_string(kSecondsPerProgram) + " s"
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
    Config config = config_of(seed);
    std::printf(
        "\nFAILED seed %llu (ATEN_CPU_CAPABILITY=%s, %d thread%s): %s\n  graft_fuzz --programs 1 "
        "--seed %llu\n",
        static_cast<unsigned long long>(seed),
        config.capability.empty() ? "best" : config.capability.c_str(), config.threads,
        config.threads > 1 ? "s" : "", line.c_str() + 2, static_cast<unsigned long long>(seed));
    if (settings_.reduce || failed_ <= kReducedAnyway) show_reduced(seed);
    std::fflush(stdout);
  }

  void show_reduced(uint64_t seed) {
    Child child = start({"--reduce-seed", std::to_string(seed)}, config_of(seed));
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
  std::map<std::string, int64_t> kinds_;
};

}  // namespace

int run_driver(const Settings& settings) {
  return Driver(settings).run();
}

}  // namespace graft::fuzz
