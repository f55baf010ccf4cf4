#include "cli/peers.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/usage.h"

extern char** environ;

namespace graft::cli {
namespace {

constexpr const char* kScript = "tools/peers/inductor.py";

/// In the checkout one stands in, or the one this program was built in.
std::string script_path() {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  for (const fs::path& root : {fs::current_path(ignored), program.parent_path().parent_path()}) {
    if (fs::exists(root / kScript, ignored)) return (root / kScript).string();
  }
  throw UsageError(std::string("--peers: found no ") + kScript +
                   ", which is in Graft's checkout; run 'graft bench --peers' from there.");
}

nlohmann::json parse(const std::string& line) {
  return nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
}

std::string error_of(const nlohmann::json& answer) {
  if (!answer.is_object()) return "it ended without an answer; its own messages stand above";
  return answer.value("error", "");
}

}  // namespace

Peer::Peer(const PeerOptions& options) {
  const std::string script = script_path(), threads = std::to_string(options.threads);
  const std::string min_time = std::to_string(options.min_time);
  std::signal(SIGPIPE, SIG_IGN);  // a peer that has died is an error of that case, not our end
  std::array<int, 2> in{}, out{};
  if (pipe2(in.data(), O_CLOEXEC) != 0 || pipe2(out.data(), O_CLOEXEC) != 0) {
    throw std::runtime_error(std::string("--peers: no pipe to the peer (") + std::strerror(errno) +
                             ").");
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  const std::array<const char*, 8> argv{
      options.python.c_str(), script.c_str(),   "--threads", threads.c_str(),
      "--min-time",           min_time.c_str(), "-",         nullptr};
  const int failed =
      posix_spawnp(&pid_, argv[0], &actions, nullptr, const_cast<char**>(argv.data()), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(in[0]);
  close(out[1]);
  to_ = fdopen(in[1], "w");
  from_ = fdopen(out[0], "r");
  if (failed != 0) {
    pid_ = -1;
    throw UsageError("--python: came '" + options.python + "', which does not start (" +
                     std::strerror(failed) +
                     "); expected a Python with torch. Name one with --python EXE.");
  }
  const nlohmann::json hello = parse(read_line());
  if (const std::string error = error_of(hello); !error.empty()) {
    throw UsageError("--peers: '" + options.python + "' cannot measure torch.compile: " + error +
                     ". Name a Python that has torch with --python EXE, or leave --peers out.");
  }
  version_ = hello.value("torch", "");
}

Peer::~Peer() {
  if (to_ != nullptr) std::fclose(to_);  // the script ends at the end of its input
  if (from_ != nullptr) std::fclose(from_);
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
}

std::string Peer::read_line() {
  std::string line;
  for (int c = std::fgetc(from_); c != EOF; c = std::fgetc(from_)) {
    if (c == '\n') return line;
    line += static_cast<char>(c);
  }
  return "";
}

VariantResult Peer::measure(const std::string& workload) {
  VariantResult result;
  result.variant = "torch.compile";
  std::fputs((workload + '\n').c_str(), to_);
  std::fflush(to_);
  const nlohmann::json answer = parse(read_line());
  result.reason = error_of(answer);
  if (!result.reason.empty()) return result;
  try {
    result.samples_ms = answer.at("samples_ms").get<std::vector<double>>();
    result.first_call_ms = answer.at("first_call_ms").get<double>();
    result.compile_ms = answer.at("compile_ms").get<double>();
    result.bitwise = answer.at("bitwise").get<bool>();
    result.max_abs_diff = answer.at("max_abs_diff").get<double>();
    if (answer.at("kernels").is_number()) result.kernels = answer.at("kernels").get<int64_t>();
  } catch (const nlohmann::json::exception& error) {
    result.reason = std::string("the script's answer has another form (") + error.what() + ")";
  }
  return result;
}

}  // namespace graft::cli
