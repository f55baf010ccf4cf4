// What a process pays before its first compiled call: with an empty cache of plans, and with what
// another process left there. Each measurement is a process of its own, so that nothing is warm but
// libtorch.
//
//     build/bench/warm_start [FILTER]    a line per workload; FILTER is part of a name
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "graft/workload.h"
#include "lab/stats.h"
#include "lab/timer.h"

extern char** environ;

namespace {

namespace lab = graft::lab;

bool is_loaded(const std::string& library) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find(library) != std::string::npos) return true;
  return false;
}

struct Start {
  double eager = 0;   ///< ms of a call
  double first = 0;   ///< of the first call, which is recorded
  double waited = 0;  ///< from its end until nothing is compiled any more
  int64_t calls = 0;  ///< until the verdict
  int found = 0, llvm = 0, verdict = 0;
};

/// In a process of its own: prints a Start as numbers.
int child(const std::string& name) {
  const c10::NoGradGuard no_grad;
  const graft::workloads::Workload* workload = graft::workloads::find_workload(name);
  if (workload == nullptr) return 1;
  const auto instance = workload->make({});
  std::vector<double> eager;
  for (int i = 0; i < 5; ++i) eager.push_back(lab::time_once_ms(instance.eager.run));
  graft::Options options;
  options.name = name;
  const auto compiled = instance.compile(options);
  Start start;
  start.eager = lab::median(eager);
  start.first = lab::time_once_ms(compiled.run);
  start.waited = lab::time_once_ms(compiled.wait);
  start.calls = 1;
  auto settled = [&] {
    const graft::Verdict verdict = compiled.report().verdict;
    return verdict != graft::Verdict::Compiling && verdict != graft::Verdict::Proving;
  };
  for (; !settled() && start.calls < 500; ++start.calls) {
    compiled.run();
    compiled.wait();
  }
  start.found = compiled.report().found;
  start.llvm = is_loaded("LLVM");
  start.verdict = static_cast<int>(compiled.report().verdict);
  compiled.wait();
  std::printf("%.6f %.6f %.6f %ld %d %d %d\n", start.eager, start.first, start.waited,
              static_cast<long>(start.calls), start.found, start.llvm, start.verdict);
  return 0;
}

bool run(const std::string& self, const std::string& name, Start& start) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return false;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  std::string flag = "--child", program = self, workload = name;
  char* arguments[] = {program.data(), flag.data(), workload.data(), nullptr};
  pid_t process = 0;
  const bool started =
      posix_spawn(&process, self.c_str(), &actions, nullptr, arguments, environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  bool read = false;
  if (FILE* out = fdopen(ends[0], "r")) {
    long calls = 0;
    read = std::fscanf(out, "%lf %lf %lf %ld %d %d %d", &start.eager, &start.first, &start.waited,
                       &calls, &start.found, &start.llvm, &start.verdict) == 7;
    start.calls = calls;
    std::fclose(out);
  }
  int status = 0;
  if (started) waitpid(process, &status, 0);
  return started && read && status == 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--child") return child(argv[2]);
  const std::string filter = argc > 1 ? argv[1] : "";
  const std::string self = std::filesystem::canonical("/proc/self/exe");
  std::string folder = std::filesystem::temp_directory_path() / "graft-warm-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return 1;
  setenv("GRAFT_CACHE_DIR", (folder + "/plans").c_str(), 1);
  std::printf("%-26s %9s | %9s %9s %6s | %9s %9s %6s %5s\n", "ms", "eager", "first", "compile",
              "calls", "first", "find", "calls", "LLVM");
  for (const auto& workload : graft::workloads::workloads()) {
    if (workload.set != graft::workloads::kDefaultSet && filter.empty()) continue;
    if (workload.name.find(filter) == std::string::npos) continue;
    Start cold, warm;
    if (!run(self, workload.name, cold) || !run(self, workload.name, warm)) {
      std::printf("%-26s failed\n", workload.name.c_str());
      continue;
    }
    std::printf("%-26s %9.3f | %9.3f %9.3f %6ld | %9.3f %9.3f %6ld %5s%s\n", workload.name.c_str(),
                cold.eager, cold.first, cold.waited, static_cast<long>(cold.calls), warm.first,
                warm.waited, static_cast<long>(warm.calls), warm.llvm != 0 ? "yes" : "no",
                warm.found != 0 ? "" : "  (not found)");
    std::fflush(stdout);
  }
  std::filesystem::remove_all(folder);
}
