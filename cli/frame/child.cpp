#include "cli/frame/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <stdexcept>

namespace graft::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kAnswerFd = 3;

/// Milliseconds that poll() may wait, an hour at most; -1: for ever.
int patience(Clock::time_point start, double timeout) {
  if (timeout <= 0) return -1;
  const double left = timeout - std::chrono::duration<double>(Clock::now() - start).count();
  return static_cast<int>(1000 * std::clamp(left, 0.0, 3600.0));
}

/// Reads to the end, or kills at the time-out.
void read_answer(pid_t child, int from, double timeout, ChildEnd& out) {
  const auto start = Clock::now();
  char buffer[1 << 14];
  for (;;) {
    pollfd ready{from, POLLIN, 0};
    const int wait = patience(start, timeout);
    const int polled = poll(&ready, 1, wait);
    if ((polled < 0 && errno == EINTR) || (polled == 0 && wait > 0)) continue;
    if (polled == 0) {
      out.timeout = true;
      kill(child, SIGKILL);
      return;
    }
    const ssize_t got = read(from, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    out.answer.append(buffer, static_cast<size_t>(got));
  }
}

}  // namespace

std::string ChildEnd::signal_text() const {
  return "signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
}

ChildEnd run_child_process(const char* subcommand, const std::string& argument, double timeout) {
  int answer[2];
  if (pipe2(answer, O_CLOEXEC) != 0)
    throw std::runtime_error(std::string("no pipe for a process: ") + std::strerror(errno));
  const pid_t child = fork();
  if (child == 0) {
    if (answer[1] == kAnswerFd)
      fcntl(kAnswerFd, F_SETFD, 0);
    else
      dup2(answer[1], kAnswerFd);
    execl("/proc/self/exe", "graft", subcommand, argument.c_str(), nullptr);
    _exit(127);
  }
  const int fork_error = errno;
  close(answer[1]);
  if (child < 0) {
    close(answer[0]);
    throw std::runtime_error(std::string("no process can be started: ") +
                             std::strerror(fork_error));
  }
  ChildEnd out;
  read_answer(child, answer[0], timeout, out);
  close(answer[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status))
    out.signal = WTERMSIG(status);
  else
    out.code = WEXITSTATUS(status);
  return out;
}

void end_with_parent() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody would stop it, or read what it finds
}

void answer_parent(const std::string& answer) {
  for (size_t at = 0; at < answer.size();) {
    const ssize_t wrote = write(kAnswerFd, answer.data() + at, answer.size() - at);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) throw std::runtime_error("the process that asked has gone");
    at += static_cast<size_t>(wrote);
  }
}

}  // namespace graft::cli
