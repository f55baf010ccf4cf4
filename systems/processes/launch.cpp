#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <thread>

#include "graft/systems/processes.h"

extern char** environ;

namespace graft::systems {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<int> g_signal{0};

/// SIGINT, SIGTERM and SIGHUP are noted while it lives: the children get them.
class NotedSignals {
 public:
  NotedSignals() {
    g_signal = 0;
    struct sigaction noted{};
    noted.sa_handler = [](int signal) { g_signal = signal; };
    for (size_t i = 0; i < std::size(kNoted); ++i) sigaction(kNoted[i], &noted, &before_[i]);
    struct sigaction ignored{};
    ignored.sa_handler = SIG_IGN;  // nobody may read the output: the processes go on
    sigaction(SIGPIPE, &ignored, &pipe_);
  }
  ~NotedSignals() {
    for (size_t i = 0; i < std::size(kNoted); ++i) sigaction(kNoted[i], &before_[i], nullptr);
    sigaction(SIGPIPE, &pipe_, nullptr);
  }
  NotedSignals(const NotedSignals&) = delete;
  NotedSignals& operator=(const NotedSignals&) = delete;

 private:
  static constexpr int kNoted[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction before_[std::size(kNoted)]{};
  struct sigaction pipe_{};
};

/// A port of the loopback that nobody listens at: `wanted`, or for 0 any.
int free_port(int wanted) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<uint16_t>(wanted));
  socklen_t length = sizeof address;
  const bool bound = bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                     getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  const std::string why = std::strerror(errno);
  close(socket);
  if (!bound)
    throw std::invalid_argument("port " + std::to_string(wanted) + " cannot be listened at (" +
                                why + "); leave it out, and a free one is taken");
  return ntohs(address.sin_port);
}

/// A process's output, line by line behind its place.
class Lines {
 public:
  Lines(int from, int to, std::string before) : from_(from), to_(to), before_(std::move(before)) {}
  int from() const { return from_; }

  /// False at the end.
  bool take() {
    char part[4096];
    const ssize_t count = read(from_, part, sizeof part);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    if (count <= 0) {
      if (!rest_.empty()) put(rest_ + '\n');
      rest_.clear();
      close(from_);
      return false;
    }
    rest_.append(part, static_cast<size_t>(count));
    const size_t end = rest_.rfind('\n');
    if (end != std::string::npos) {
      std::string whole;
      for (size_t first = 0; first <= end;) {
        const size_t next = rest_.find('\n', first) + 1;
        whole += before_ + rest_.substr(first, next - first);
        first = next;
      }
      rest_.erase(0, end + 1);
      put(whole);
    }
    return true;
  }

 private:
  void put(const std::string& text) const {
    for (size_t done = 0; done < text.size();) {
      const ssize_t count = write(to_, text.data() + done, text.size() - done);
      if (count < 0 && errno != EINTR) return;
      done += count > 0 ? static_cast<size_t>(count) : 0;
    }
  }

  int from_, to_;
  std::string before_, rest_;
};

std::vector<std::string> environment_of(const LaunchOptions& options, int rank, int port,
                                        int threads) {
  std::map<std::string, std::string> own{
      {"RANK", std::to_string(rank)},
      {"LOCAL_RANK", std::to_string(rank)},
      {"WORLD_SIZE", std::to_string(options.count)},
      {"LOCAL_WORLD_SIZE", std::to_string(options.count)},
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", std::to_string(port)},
      {"OMP_NUM_THREADS", std::to_string(threads)},
  };
  own.insert(options.environment.begin(), options.environment.end());
  std::vector<std::string> all;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    if (!own.contains(text.substr(0, text.find('=')))) all.push_back(text);
  }
  for (const auto& [name, value] : own) all.push_back(name + '=' + value);
  return all;
}

struct Child {
  pid_t pid = 0;
  std::optional<int> status;
};

class Launch {
 public:
  explicit Launch(const LaunchOptions& options) : options_(options) {}
  ~Launch() {
    tell(SIGKILL);
    for (Child& child : children_)
      if (!child.status) waitpid(child.pid, nullptr, 0);
  }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  void start() {
    const int port = free_port(options_.port);
    const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    const int threads =
        options_.threads > 0 ? options_.threads : std::max(1, cores / options_.count);
    for (int rank = 0; rank < options_.count; ++rank)
      start_one(rank, environment_of(options_, rank, port, threads));
  }

  int wait() {
    int first_failed = 0;
    std::optional<Clock::time_point> kill_at;
    while (running() || !lines_.empty()) {
      pass_on();
      if (const int signal = g_signal.exchange(0); signal != 0) {
        tell(signal);
        if (!kill_at) kill_at = Clock::now() + options_.grace;
        if (first_failed == 0) first_failed = 128 + signal;
      }
      for (size_t rank = 0; rank < children_.size(); ++rank) {
        Child& child = children_[rank];
        int status = 0;
        if (child.status) continue;
        const pid_t ended = waitpid(child.pid, &status, WNOHANG);
        if (ended != child.pid && !(ended < 0 && errno == ECHILD)) continue;
        if (status != 0) kill(-child.pid, SIGKILL);  // what it started and left behind
        child.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        if (*child.status == 0 || first_failed != 0) continue;
        first_failed = *child.status;
        std::cerr << "graft launch: process " << rank << " of " << options_.count
                  << (WIFSIGNALED(status) ? std::string(" was ended by signal ") +
                                                std::to_string(WTERMSIG(status)) + " (" +
                                                strsignal(WTERMSIG(status)) + ")"
                                          : " ended with status " + std::to_string(*child.status))
                  << (running() ? "; ending the others\n" : "\n");
        tell(SIGTERM);
        kill_at = Clock::now() + options_.grace;
      }
      // What a process left running may keep its output open.
      if (!kill_at && !running()) kill_at = Clock::now() + options_.grace;
      if (kill_at && Clock::now() > *kill_at) {
        tell(SIGKILL);
        if (!running()) break;  // a grandchild may keep a pipe open
      }
    }
    return first_failed;
  }

 private:
  void start_one(int rank, std::vector<std::string> environment) {
    int out[2], err[2];
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0)
      throw std::runtime_error(std::string("no pipe for a process's output: ") +
                               std::strerror(errno));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
    std::vector<char*> argv, envp;
    for (const std::string& word : options_.command)
      argv.push_back(const_cast<char*>(word.c_str()));
    for (std::string& variable : environment) envp.push_back(variable.data());
    argv.push_back(nullptr), envp.push_back(nullptr);
    // A group of its own, with what it starts: signals go to all of it.
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t usual;
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
    Child child;
    const int failed =
        posix_spawnp(&child.pid, argv[0], &actions, &attributes, argv.data(), envp.data());
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(out[1]), close(err[1]);
    if (failed != 0) {
      close(out[0]), close(err[0]);
      throw std::invalid_argument("'" + options_.command.front() + "' cannot be started: " +
                                  std::strerror(failed) + "; give a program and its arguments");
    }
    children_.push_back(child);
    const std::string before = "[" + std::to_string(rank) + "] ";
    lines_.emplace_back(out[0], STDOUT_FILENO, before);
    lines_.emplace_back(err[0], STDERR_FILENO, before);
  }

  bool running() const {
    return std::any_of(children_.begin(), children_.end(),
                       [](const Child& child) { return !child.status; });
  }

  void tell(int signal) const {
    for (const Child& child : children_)
      if (!child.status) kill(-child.pid, signal);
  }

  /// Waits a twentieth of a second for output.
  void pass_on() {
    constexpr int kWait = 50;  // ms
    std::vector<pollfd> watched;
    for (const Lines& lines : lines_) watched.push_back({lines.from(), POLLIN, 0});
    if (poll(watched.data(), watched.size(), kWait) <= 0) return;
    std::vector<Lines> left;
    for (size_t i = 0; i < watched.size(); ++i)
      if (watched[i].revents == 0 || lines_[i].take()) left.push_back(std::move(lines_[i]));
    lines_ = std::move(left);
  }

  const LaunchOptions& options_;
  const NotedSignals noted_;
  std::vector<Child> children_;
  std::vector<Lines> lines_;
};

}  // namespace

int launch(const LaunchOptions& options) {
  if (options.count < 1)
    throw std::invalid_argument("launch: " + std::to_string(options.count) +
                                " processes; expected 1 or more");
  if (options.command.empty() || options.command.front().empty())
    throw std::invalid_argument("launch: no program; expected one and its arguments");
  Launch all(options);
  all.start();
  return all.wait();
}

}  // namespace graft::systems
