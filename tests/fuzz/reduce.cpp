#include "fuzz/reduce.h"

#include <ATen/Parallel.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "fuzz/check.h"

namespace graft::fuzz {

namespace {

constexpr unsigned kSecondsPerTrial = 60;

std::string read_all(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(n));
  return text;
}

[[noreturn]] void run_child(const Program& program, const Config& config, int fd) {
  alarm(kSecondsPerTrial);
  at::set_num_threads(config.threads);
  std::string text;
  try {
    text = check(program, config.fast, config.gradients).failure;
  } catch (const std::exception& error) {
    text = std::string("the check itself threw: ") + error.what();
  }
  if (write(fd, text.data(), text.size()) < 0) _exit(3);
  _exit(text.empty() ? 0 : 1);
}

bool still_fails(const Program& candidate, const Config& config, std::string& what) {
  Trial trial = try_in_child(candidate, config);
  if (trial.failed) what = trial.what;
  return trial.failed;
}

/// Chunks of halving size, then one by one, until nothing more can go.
Program drop_steps(Program program, const Config& config, std::string& what) {
  for (size_t chunk = std::max<size_t>(program.steps.size() / 2, 1);;
       chunk = std::max<size_t>(chunk / 2, 1)) {
    bool dropped = false;
    for (size_t end = program.steps.size(); end > 0;) {
      size_t begin = end > chunk ? end - chunk : 0;
      std::set<int> gone;
      for (size_t i = begin; i < end; ++i) gone.insert(static_cast<int>(i));
      Program candidate = without(program, gone, {});
      if (candidate.steps.size() < program.steps.size() && still_fails(candidate, config, what)) {
        program = std::move(candidate);
        dropped = true;
      }
      end = std::min(begin, program.steps.size());
    }
    if (chunk == 1 && !dropped) return program;
  }
}

Program drop_results(Program program, const Config& config, std::string& what) {
  for (size_t i = program.results.size(); i-- > 0 && program.results.size() > 1;) {
    Program candidate = without(program, {}, {static_cast<int>(i)});
    if (still_fails(candidate, config, what)) program = std::move(candidate);
  }
  return program;
}

template <class Change>
void try_change(Program& program, const Config& config, std::string& what, Change change) {
  Program candidate = program;
  change(candidate);
  if (still_fails(candidate, config, what)) program = std::move(candidate);
}

}  // namespace

Trial try_in_child(const Program& program, const Config& config) {
  int ends[2];
  if (pipe(ends) != 0) return {true, "no pipe"};
  std::fflush(nullptr);
  pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    int quiet = open("/dev/null", O_WRONLY);
    dup2(quiet, STDERR_FILENO);
    run_child(program, config, ends[1]);
  }
  close(ends[1]);
  std::string text = read_all(ends[0]);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    if (WTERMSIG(status) == SIGALRM)
      return {true, "hung for " + std::to_string(kSecondsPerTrial) + " s"};
    return {true, std::string("crashed: ") + strsignal(WTERMSIG(status))};
  }
  return {WEXITSTATUS(status) != 0, text};
}

Program reduce(Program program, const Config& config, std::string& what) {
  if (!still_fails(program, config, what)) {
    what = "does not fail when run alone: " + what;
    return program;
  }
  if (what.starts_with("hung")) return program;  // each trial would wait as long
  try_change(program, config, what,
             [](Program& p) { p.calls.resize(std::min<size_t>(p.calls.size(), 3)); });
  program = drop_steps(std::move(program), config, what);
  program = drop_results(std::move(program), config, what);
  program = drop_steps(std::move(program), config, what);
  try_change(program, config, what, [](Program& p) { p.special_values = false; });
  try_change(program, config, what, [](Program& p) { p.frees = false; });
  try_change(program, config, what, [](Program& p) { p.guard = Program::Guard::None; });
  for (size_t k = program.calls.size(); k-- > 1;)
    try_change(program, config, what,
               [&](Program& p) { p.calls.erase(p.calls.begin() + static_cast<int64_t>(k)); });
  return program;
}

}  // namespace graft::fuzz
