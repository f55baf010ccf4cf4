#include "fuzz/watchdog.h"

#include <execinfo.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <thread>

namespace graft::fuzz {

namespace {

using namespace std::chrono_literals;

constexpr int kMostFrames = 128;
constexpr auto kAnswerWithin = 2s;

// Read by a signal handler, so they are globals.
std::atomic<int> report_file{-1};
std::atomic<int> answers{0};

std::atomic<int64_t> began{0};  ///< milliseconds of the steady clock; 0: no program runs
std::atomic<bool> reporting{false};
uint64_t current_seed = 0;  ///< this and the text change only while `began` is 0
std::string* program_text = nullptr;

int64_t now() {
  auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
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
void write_task_file(int file, int thread, const char* name) {
  char path[64], text[256];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/%s", thread, name);
  int from = open(path, O_RDONLY | O_CLOEXEC);
  if (from < 0) return;
  ssize_t count = read(from, text, sizeof text - 1);
  close(from);
  text[std::max<ssize_t>(count, 0)] = '\0';
  text[std::strcspn(text, "\n")] = '\0';
  write_text(file, text);
}

void write_thread(int file, int thread) {
  char line[64];
  std::snprintf(line, sizeof line, "\nthread %d, ", thread);
  write_text(file, line);
  write_task_file(file, thread, "comm");
  write_text(file, ", system call ");
  write_task_file(file, thread, "syscall");
  write_text(file, "\n");
  int before = answers;
  auto until = std::chrono::steady_clock::now() + kAnswerWithin;
  if (syscall(SYS_tgkill, getpid(), thread, signal_number()) == 0)
    while (answers == before && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(1ms);
  if (answers == before)
    write_text(file, "  does not answer: it blocks signals, or loads a library\n");
}

/// Every thread but this one. opendir() would allocate.
void write_threads(int file) {
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
      if (thread != 0 && thread != own) write_thread(file, thread);
      at += entry->size;
    }
  close(folder);
}

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
  write_threads(file);
  std::snprintf(line, sizeof line, "! hung for %d s; its program and its threads' stacks: %s\n",
                limit, path);
  write_text(STDOUT_FILENO, line);
  _exit(kHungStatus);
}

void watch(int limit) {
  for (;; std::this_thread::sleep_for(100ms)) {
    int64_t since = began;
    if (since == 0 || now() - since < limit * 1000) continue;
    reporting = true;
    if (began == since) report_and_end(limit);  // end() waits from here on
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

void Watchdog::begin(uint64_t seed, std::string program) {
  end();
  current_seed = seed;
  *program_text = std::move(program);
  began = now();
}

void Watchdog::end() {
  began = 0;
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
