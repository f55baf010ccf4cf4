#include "fuzz/watchdog.h"

#include <execinfo.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <future>
#include <thread>

namespace graft::fuzz {

namespace {

using namespace std::chrono_literals;

constexpr int kMostFrames = 128;
constexpr auto kAnswerWithin = 2s;
constexpr int64_t kTick = 100'000'000;           ///< between two looks, in nanoseconds
constexpr int64_t kAliveEvery = 10'000'000'000;  ///< between two signs of life, likewise

// Read by a signal handler, so they are globals.
std::atomic<int> report_file{-1};
std::atomic<int> answers{0};

std::atomic<uint64_t> program{0};  ///< counts those that began; 0: none runs
std::atomic<bool> reporting{false};
uint64_t programs_begun = 0;
uint64_t current_seed = 0;  ///< this and the text change only while `program` is 0
std::string* program_text = nullptr;

int64_t nanoseconds_of(clockid_t clock) {
  timespec time = {};
  clock_gettime(clock, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

void write_text(int file, const char* text) {
  for (size_t left = std::strlen(text); left > 0;) {
    ssize_t written = write(file, text, left);
    if (written <= 0) return;
    text += written, left -= static_cast<size_t>(written);
  }
}

/// In the thread that is asked.
void write_own_stack(int) {
  int kept = errno;
  void* frames[kMostFrames];
  int count = backtrace(frames, kMostFrames);
  backtrace_symbols_fd(frames, count, report_file);
  ++answers;
  errno = kept;
}

int signal_number() {
  return SIGRTMIN + 5;
}

/// The first line of /proc/self/task/ID/NAME: a thread's name, or the system call that it waits in.
struct TaskFile {
  char text[256] = "";

  TaskFile(int thread, const char* name) {
    char path[64];
    std::snprintf(path, sizeof path, "/proc/self/task/%d/%s", thread, name);
    int from = open(path, O_RDONLY | O_CLOEXEC);
    if (from < 0) return;
    ssize_t count = read(from, text, sizeof text - 1);
    close(from);
    text[std::max<ssize_t>(count, 0)] = '\0';
    text[std::strcspn(text, "\n")] = '\0';
  }
};

void write_thread(int file, int thread) {
  char line[64];
  std::snprintf(line, sizeof line, "\nthread %d, ", thread);
  write_text(file, line);
  write_text(file, TaskFile(thread, "comm").text);
  write_text(file, ", system call ");
  write_text(file, TaskFile(thread, "syscall").text);
  write_text(file, "\n");
  int before = answers;
  auto until = std::chrono::steady_clock::now() + kAnswerWithin;
  if (syscall(SYS_tgkill, getpid(), thread, signal_number()) == 0)
    while (answers == before && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(1ms);
  if (answers == before)
    write_text(file, "  does not answer: it blocks signals, or loads a library\n");
}

/// Calls `visit(thread)` for every thread but this one. opendir() would allocate.
template <class Visit>
void for_each_thread(Visit visit) {
  struct Entry {  // linux_dirent64
    uint64_t inode;
    int64_t offset;
    unsigned short size;
    unsigned char type;
    char name[1];
  };
  int own = static_cast<int>(syscall(SYS_gettid));
  int folder = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  alignas(Entry) char entries[4096];
  for (long count; (count = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0;)
    for (long at = 0; at < count;) {
      auto* entry = reinterpret_cast<Entry*>(entries + at);
      int thread = std::atoi(entry->name);  // 0 for "." and ".."
      if (thread != 0 && thread != own) visit(thread);
      at += entry->size;
    }
  close(folder);
}

/// How long the threads were ready to run and got no processor, together.
int64_t nanoseconds_waited() {
  int64_t sum = 0;
  for_each_thread([&](int thread) {  // "nanoseconds on a processor, waiting for one, times"
    const TaskFile file(thread, "schedstat");
    if (const char* second = std::strchr(file.text, ' ')) sum += std::atoll(second);
  });
  return sum;
}

/// Time in which a program could have gone on. A process that is stopped or gets no processor, on a
/// machine with other work, does not hang; one that spins uses what it gets, and one whose threads
/// wait for each other is never ready to run.
class Patience {
 public:
  /// What passed since the last call.
  int64_t lap() {
    const int64_t time = nanoseconds_of(CLOCK_MONOTONIC), waited = nanoseconds_waited(),
                  used = nanoseconds_of(CLOCK_PROCESS_CPUTIME_ID);
    const int64_t passed = std::min(time - time_, 2 * kTick),
                  starved = std::max<int64_t>(waited - waited_, 0);
    const int64_t counted = std::max(passed - starved, std::min(used - used_, passed));
    time_ = time, waited_ = waited, used_ = used;
    return counted;
  }

 private:
  int64_t time_ = 0, waited_ = 0, used_ = 0;
};

[[noreturn]] void report_and_end(int limit) {
  char path[64], line[160];
  std::snprintf(path, sizeof path, "graft_fuzz-hung-%llu.txt",
                static_cast<unsigned long long>(current_seed));
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  report_file = file;
  std::snprintf(line, sizeof line,
                "seed %llu hung for %d s; addresses: addr2line -Cfe BINARY +0x…\n\n",
                static_cast<unsigned long long>(current_seed), limit);
  write_text(file, line);
  write_text(file, program_text->c_str());
  for_each_thread([&](int thread) { write_thread(file, thread); });
  std::snprintf(line, sizeof line, "! hung for %d s; its program and its threads' stacks: %s\n",
                limit, path);
  write_text(STDOUT_FILENO, line);
  _exit(kHungStatus);
}

void watch(int limit) {
  Patience patience;
  uint64_t watched = 0;
  int64_t counted = 0, said = nanoseconds_of(CLOCK_MONOTONIC);
  for (;; std::this_thread::sleep_for(std::chrono::nanoseconds(kTick))) {
    const int64_t passed = patience.lap();
    const uint64_t now = program;
    counted = now == watched ? counted + passed : 0;
    watched = now;
    if (const int64_t time = nanoseconds_of(CLOCK_MONOTONIC); time - said > kAliveEvery) {
      write_text(STDOUT_FILENO, ".\n");
      said = time;
    }
    if (now == 0 || counted < limit * int64_t{1'000'000'000}) continue;
    reporting = true;
    if (program == now) report_and_end(limit);  // end() waits from here on
    reporting = false;
  }
}

}  // namespace

Watchdog::Watchdog(int limit) {
  program_text = new std::string;  // the watching thread outlives whoever made it
  void* frame[1];
  backtrace(frame, 1);  // the first call loads a library
  struct sigaction action = {};
  action.sa_handler = write_own_stack;
  action.sa_flags = SA_RESTART;
  sigaction(signal_number(), &action, nullptr);
  std::thread([limit] { watch(limit); }).detach();
}

void Watchdog::begin(uint64_t seed, std::string text) {
  end();
  current_seed = seed;
  *program_text = std::move(text);
  program = ++programs_begun;
}

void Watchdog::end() {
  program = 0;
  while (reporting) std::this_thread::sleep_for(1ms);
}

void wait_for_ever() {
  std::promise<void> never;
  auto waits = [result = never.get_future().share()] { result.wait(); };
  std::thread other(waits);
  waits();
  std::abort();
}

}  // namespace graft::fuzz
