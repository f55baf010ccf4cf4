#include "runtime/process/log.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string_view>

namespace graft::runtime {

namespace {

constexpr std::array<std::string_view, 5> kTopics = {"graph_breaks", "recompiles", "fusion",
                                                     "codegen", "cache"};

void write_line(const std::string& text) {
  std::string line = "graft: " + text + "\n";
  // One system call, so that lines of several threads do not mix; a closed stderr is nobody's
  // error.
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

unsigned read_topics() {
  unsigned mask = 0;
  std::string_view rest = environment("GRAFT_LOGS");
  while (!rest.empty()) {
    size_t comma = rest.find(',');
    std::string_view word = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    if (word.empty()) continue;
    unsigned bit = word == "all" ? (1u << kTopics.size()) - 1 : 0;
    for (size_t i = 0; i < kTopics.size(); ++i)
      if (word == kTopics[i]) bit = 1u << i;
    if (bit == 0)
      warn("GRAFT_LOGS: no topic \"" + std::string(word) +
           "\"; there are graph_breaks, recompiles, fusion, codegen, cache, all");
    mask |= bit;
  }
  return mask;
}

std::atomic<unsigned>& mask() {
  static std::atomic<unsigned> value{read_topics()};
  return value;
}

}  // namespace

bool logs(Topic topic) {
  return (mask().load(std::memory_order_relaxed) >> static_cast<unsigned>(topic) & 1u) != 0;
}

void log(Topic topic, const std::string& text) {
  if (logs(topic)) write_line(std::string(kTopics[static_cast<size_t>(topic)]) + ": " + text);
}

void warn(const std::string& text) {
  write_line("warning: " + text);
}

void warn_once(const std::string& who, const std::string& why) {
  static auto* mutex = new std::mutex;
  static auto* said = new std::set<std::string>;
  {
    std::lock_guard lock(*mutex);
    if (said->size() > 1000 || !said->insert(why).second) return;
  }
  warn(who + why);
}

void reload_logs() {
  mask().store(read_topics(), std::memory_order_relaxed);
}

bool disabled() {
  static const bool value = environment("GRAFT_DISABLE") == "1";
  return value;
}

std::string trace_directory() {
  return std::string(environment("GRAFT_TRACE"));
}

}  // namespace graft::runtime
