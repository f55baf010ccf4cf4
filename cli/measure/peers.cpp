#include "cli/measure/peers.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>
#include <thread>

#include "lab/progress.h"
#include "lab/words.h"

extern char** environ;

namespace graft::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kProtocol = 1;
constexpr size_t kLongestLine = 64 << 20;  // bytes; a peer that goes on without end is broken
constexpr auto kPatience = std::chrono::seconds(5);  // for a peer to end when its input has

/// In the checkout one stands in, or the one this program was built in.
std::string script_path(const PeerScript& script) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  for (const fs::path& root : {fs::current_path(ignored), program.parent_path().parent_path()}) {
    if (fs::exists(root / script.path, ignored)) return (root / script.path).string();
  }
  throw PeerAbsent("--peers: found no " + script.path +
                   ", which is in Graft's checkout; run 'graft bench --peers' from there.");
}

/// What a peer said, shortened to a line for a table or a file.
std::string excerpt(const std::string& line) {
  constexpr size_t kMost = 80;
  std::string text = line.substr(0, kMost);
  std::replace_if(text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return '\'' + text + (line.size() > kMost ? "…'" : "'");
}

std::string string_in(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? ""
         : found->is_string()  ? found->get<std::string>()
                               : found->dump();
}

/// The answer's numbers; throws std::invalid_argument saying what is wrong with it.
void read_answer(const nlohmann::json& answer, lab::Row& result) {
  const auto number = [](const nlohmann::json& value, const std::string& key) {
    if (!value.is_number() || value.get<double>() < 0)
      throw std::invalid_argument("its answer's " + key + " came as " + excerpt(value.dump()) +
                                  ", expected a number from 0");
    return value.get<double>();
  };
  const auto optional = [&](const char* key, auto read) {
    const auto found = answer.find(key);
    if (found != answer.end() && !found->is_null()) read(*found);
  };
  const auto samples = answer.find("samples_ms");
  if (samples == answer.end() || !samples->is_array() || samples->empty())
    throw std::invalid_argument("its answer has no samples_ms, expected a list of milliseconds");
  std::vector<double> ms;
  for (const nlohmann::json& sample : *samples) ms.push_back(number(sample, "samples_ms"));
  optional("first_call_ms",
           [&](const auto& v) { result.first_call_ms = number(v, "first_call_ms"); });
  optional("compile_ms", [&](const auto& v) { result.compile_ms = number(v, "compile_ms"); });
  optional("kernels",
           [&](const auto& v) { result.kernels = static_cast<int64_t>(number(v, "kernels")); });
  optional("max_abs_diff", [&](const auto& v) { result.max_abs_diff = number(v, "max_abs_diff"); });
  optional("bitwise", [&](const auto& v) {
    if (!v.is_boolean()) throw std::invalid_argument("its answer's bitwise is not true or false");
    result.bitwise = v.template get<bool>();
  });
  result.samples_ms = std::move(ms);  // last: a result with samples is a whole one
}

}  // namespace

const std::vector<PeerScript>& peer_scripts() {
  static const std::vector<PeerScript> scripts{
      {"torch.compile", "tools/peers/inductor.py", "torch"},
      {"jax", "tools/peers/jax_peer.py", "jax"},
  };
  return scripts;
}

/// A child process that reads and writes lines over one socket. It leads a process group, so that
/// the compilers it starts end with it.
class Peer::Process {
 public:
  /// Throws PeerAbsent if the program does not start.
  Process(const std::string& python, const std::string& script) {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
      throw std::runtime_error(std::string("--peers: no socket to the peer (") +
                               std::strerror(errno) + ").");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    const std::array<const char*, 4> argv{python.c_str(), script.c_str(), "-", nullptr};
    const int failed = posix_spawnp(&pid_, argv[0], &actions, &attributes,
                                    const_cast<char**>(argv.data()), environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    socket_ = ends[0];
    if (failed == 0) return;
    close(socket_);
    throw PeerAbsent("--python: came '" + python + "', which does not start (" +
                     std::strerror(failed) +
                     "); expected a Python. Name one with --python EXE, or install python3.");
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  ~Process() {
    shutdown(socket_, SHUT_WR);  // the script ends at the end of its input
    const auto limit = Clock::now() + kPatience;
    while (!broken_ && alive() && Clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (alive()) {
      kill(-pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(socket_);
  }

  bool alive() {
    if (!ended_ && waitpid(pid_, &status_, WNOHANG) != 0) ended_ = true;
    return !ended_;
  }

  void send(const std::string& line) {
    const std::string text = line + '\n';
    for (size_t done = 0; done < text.size();) {
      const ssize_t sent = ::send(socket_, text.data() + done, text.size() - done, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return;  // it has ended, as read_object will say
      done += static_cast<size_t>(sent);
    }
  }

  /// The next line, a JSON object. Throws std::invalid_argument saying why there is none; the
  /// process is not to be spoken to again then.
  nlohmann::json read_object(double seconds) {
    broken_ = true;
    const std::string line = read_line(seconds);
    nlohmann::json object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object())
      throw std::invalid_argument("it said " + excerpt(line) +
                                  ", expected a JSON object on a line");
    broken_ = false;
    return object;
  }

 private:
  std::string read_line(double seconds) {
    const auto limit = Clock::now() + std::chrono::duration<double>(seconds);
    for (;;) {
      if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
        std::string line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return line;
      }
      if (buffer_.size() > kLongestLine)
        throw std::invalid_argument("it said " + excerpt(buffer_) + " and no end of the line");
      if (Clock::now() > limit)
        throw std::invalid_argument("it gave no answer within " + lab::duration_text(seconds) +
                                    " and was stopped; allow more with --timeout");
      // A child of its own may hold the socket open: its end is looked for, not only the socket's.
      const bool was_alive = alive();
      if (!receive() && !was_alive) throw std::invalid_argument(end_text());
    }
  }

  /// Whether anything came within a tenth of a second.
  bool receive() {
    pollfd ready{socket_, POLLIN, 0};
    if (poll(&ready, 1, 100) <= 0) return false;
    std::array<char, 1 << 16> chunk{};
    const ssize_t got = recv(socket_, chunk.data(), chunk.size(), 0);
    if (got > 0) buffer_.append(chunk.data(), static_cast<size_t>(got));
    // The socket is closed and the process still alive: pauses, so that waiting for its end costs
    // nothing.
    if (got <= 0 && alive()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return got > 0;
  }

  std::string end_text() const {
    const std::string how = WIFSIGNALED(status_)
                                ? "signal " + std::to_string(WTERMSIG(status_))
                                : "exit code " + std::to_string(WEXITSTATUS(status_));
    return "it ended without an answer (" + how + "); its own messages stand above";
  }

  pid_t pid_ = -1;
  int socket_ = -1;
  std::string buffer_;
  int status_ = 0;
  bool ended_ = false, broken_ = false;
};

Peer::Peer(PeerOptions options) : options_(std::move(options)) {
  start();
}

Peer::~Peer() = default;

void Peer::start() {
  const std::string script = script_path(options_.script);
  process_ = std::make_unique<Process>(options_.python, script);
  std::string problem;
  try {
    const nlohmann::json hello = process_->read_object(options_.timeout);
    version_ = string_in(hello, "version");
    if (const std::string error = string_in(hello, "error"); !error.empty()) {
      problem = error + ". Install it with '" + options_.python + " -m pip install " +
                options_.script.install +
                "', or name a Python that has it with --python EXE, or leave --peers out.";
    } else if (hello.value("protocol", nlohmann::json()) != kProtocol) {
      problem = script + " said hello without \"protocol\": " + std::to_string(kProtocol) +
                "; take it from the same checkout as this program (docs/peers.md).";
    }
  } catch (const std::invalid_argument& error) {
    problem = std::string(error.what()) + ". Try '" + options_.python + ' ' + script +
              " --help', or name another Python with --python EXE.";
  }
  if (problem.empty()) return;
  process_ = nullptr;
  throw PeerAbsent("--peers: '" + options_.python + "' cannot measure " + name() + ": " + problem);
}

lab::Row Peer::measure(const std::string& workload,
                       const std::map<std::string, std::string>& config) {
  lab::Row result;
  result.name = workload;
  result.config = config;
  result.variant = name();
  result.threads = options_.threads;
  result.isolated = true;
  result.status = lab::Status::Failed;
  try {
    if (process_ == nullptr || !process_->alive()) start();
    process_->send(nlohmann::json{{"case", workload},
                                  {"config", config},
                                  {"min_time", options_.min_time},
                                  {"threads", options_.threads}}
                       .dump());
    const nlohmann::json answer = process_->read_object(options_.timeout);
    result.error = string_in(answer, "error");
    if (!result.error.empty()) return result;
    if (answer.contains("case") && answer["case"] != workload)
      throw std::invalid_argument("its answer is for case " + excerpt(string_in(answer, "case")));
    read_answer(answer, result);
    result.status = lab::Status::Ok;
  } catch (const PeerAbsent& error) {
    result.error = error.what();
  } catch (const std::invalid_argument& error) {
    process_ = nullptr;  // what it says next may be the rest of this
    result.error = error.what();
  }
  return result;
}

std::vector<std::unique_ptr<Peer>> start_peers(const PeerOptions& options,
                                               const std::vector<PeerScript>& scripts,
                                               std::ostream& notes) {
  std::vector<std::unique_ptr<Peer>> peers;
  for (const PeerScript& script : scripts) {
    PeerOptions own = options;
    own.script = script;
    try {
      peers.push_back(std::make_unique<Peer>(own));
    } catch (const PeerAbsent& absent) {
      notes << "graft: " << script.name << " is left out: " << absent.what() << '\n';
    }
  }
  return peers;
}

}  // namespace graft::cli
