#include "systems/processes/shared_segment.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <random>
#include <stdexcept>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace graft::systems {

/// At the start of the segment; the places follow, then the slots.
struct alignas(128) SharedSegment::Head {
  std::atomic<uint64_t> mark;  ///< that of this group, not of another segment of that name
  std::atomic<uint32_t> news;  ///< a futex: counts what was told
  std::atomic<uint32_t> sleepers;
};

namespace {

constexpr int kSpins = 4000;  // some 50 µs: a process on another core is done by then, or sleeps
// For processes that ended, or do something else.
constexpr std::chrono::milliseconds kLook(5);

std::vector<uint8_t> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}
std::string text_of(const std::vector<uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

int64_t sums_bytes(int size) {
  return (kSlotBytes / size / kLineBytes + 1) * kLineBytes;
}

int64_t segment_bytes(int size) {
  return SharedSegment::heads_bytes(size) + size * kSlots * (kSlotBytes + sums_bytes(size));
}

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// Closes a file descriptor.
struct File {
  int fd = -1;
  ~File() {
    if (fd >= 0) close(fd);
  }
};

void* map(int fd, int64_t bytes) {
  void* memory =
      mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

int64_t SharedSegment::heads_bytes(int size) {
  return static_cast<int64_t>(sizeof(Head)) + size * static_cast<int64_t>(sizeof(Place));
}

SharedSegment::Head& SharedSegment::head() const {
  return *reinterpret_cast<Head*>(memory_);
}

SharedSegment::Place& SharedSegment::place(int rank) const {
  return reinterpret_cast<Place*>(memory_ + sizeof(Head))[rank];
}

char* SharedSegment::slot(int rank, int64_t piece) const {
  return memory_ + heads_bytes(size_) + (rank * kSlots + piece % kSlots) * kSlotBytes;
}

char* SharedSegment::sums(int rank, int64_t piece) const {
  return slot(size_, 0) + (rank * kSlots + piece % kSlots) * sums_bytes(size_);
}

std::unique_ptr<SharedSegment> SharedSegment::make(int size, std::string& name) {
  std::random_device random;
  const uint64_t mark = (uint64_t{random()} << 32 | random()) | 1;
  name = "/graft-" + std::to_string(getpid()) + '-' + std::to_string(mark);
  const int64_t bytes = segment_bytes(size);
  const File file{shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600)};
  // Allocated now: a full /dev/shm would be a signal later.
  if (file.fd < 0 || posix_fallocate(file.fd, 0, bytes) != 0) return nullptr;
  void* memory = map(file.fd, bytes);
  if (memory == nullptr) return nullptr;
  std::unique_ptr<SharedSegment> made(new SharedSegment(memory, bytes, 0, size));
  made->head().mark = mark;
  return made;
}

std::unique_ptr<SharedSegment> SharedSegment::open(const std::string& name, uint64_t mark, int rank,
                                                   int size) {
  const int64_t bytes = segment_bytes(size);
  const File file{shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0)};
  void* memory = file.fd < 0 ? nullptr : map(file.fd, bytes);
  if (memory == nullptr) return nullptr;
  std::unique_ptr<SharedSegment> made(new SharedSegment(memory, bytes, rank, size));
  return made->head().mark == mark ? std::move(made) : nullptr;
}

std::unique_ptr<SharedSegment> SharedSegment::join(c10d::Store& store, int rank, int size) {
  const auto all_say_yes = [&](const std::string& what, bool own) {
    store.set(what + std::to_string(rank), bytes_of(own ? "yes" : "no"));
    bool all = own;
    for (int other = 0; other < size; ++other)
      all = text_of(store.get(what + std::to_string(other))) == "yes" && all;
    return all;
  };
  // Nothing is left of it when the last process ends, however it ends.
  struct Name {
    std::string text;
    ~Name() {
      if (!text.empty()) shm_unlink(text.c_str());
    }
  } name;
  std::unique_ptr<SharedSegment> made;
  if (rank == 0) {
    made = make(size, name.text);
    store.set("shared", bytes_of(made ? std::to_string(made->head().mark) + ' ' + name.text : ""));
  } else if (const std::string told = text_of(store.get("shared")); !told.empty()) {
    made = open(told.substr(told.find(' ') + 1), std::stoull(told), rank, size);
  }
  if (made) made->place(rank).process = getpid();
  if (!all_say_yes("mapped/", made != nullptr)) return nullptr;
  // Process ids of another container's mean nothing here.
  bool seen = true;
  for (int other = 0; other < size; ++other)
    seen = seen && (kill(made->place(other).process, 0) == 0 || errno == EPERM);
  return all_say_yes("seen/", seen) ? std::move(made) : nullptr;
}

SharedSegment::~SharedSegment() {
  place(rank_).left = 1;
  tell();
  munmap(memory_, static_cast<size_t>(bytes_));
}

void SharedSegment::tell() const {
  Head& all = head();
  all.news.fetch_add(1);
  if (all.sleepers.load() > 0)
    syscall(SYS_futex, &all.news, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void SharedSegment::tell_put(int64_t pieces) {
  place(rank_).put.store(pieces, std::memory_order_release);
  tell();
}

void SharedSegment::tell_summed(int64_t pieces) {
  place(rank_).summed.store(pieces, std::memory_order_release);
  tell();
}

void SharedSegment::tell_read(int64_t pieces) {
  place(rank_).read.store(pieces, std::memory_order_release);
  tell();
}

uint32_t SharedSegment::news() const {
  return head().news.load();
}

std::string SharedSegment::who_left() const {
  for (int rank = 0; rank < size_; ++rank) {
    const Place& other = place(rank);
    if (other.left != 0) return "process " + std::to_string(rank) + " has left the group";
    if (kill(other.process, 0) != 0 && errno == ESRCH)
      return "process " + std::to_string(rank) + " (process id " + std::to_string(other.process) +
             ") has ended";
  }
  return "";
}

bool SharedSegment::wait_for_news(uint32_t seen) const {
  Head& all = head();
  for (int spin = 0; spin < kSpins; ++spin) {
    if (all.news.load(std::memory_order_acquire) != seen) return true;
    pause();
  }
  const timespec look{0, std::chrono::nanoseconds(kLook).count()};
  all.sleepers.fetch_add(1);
  syscall(SYS_futex, &all.news, FUTEX_WAIT, seen, &look, nullptr, 0);
  all.sleepers.fetch_sub(1);
  return all.news.load() != seen;
}

void SharedSegment::check_others(uint32_t seen, std::chrono::steady_clock::time_point until) const {
  std::string wrong = who_left();
  if (wrong.empty() && std::chrono::steady_clock::now() > until)
    wrong = "the others did not come within the time-out";
  // One that left told before what it had to tell.
  if (!wrong.empty() && news() == seen) throw std::runtime_error(wrong);
}

}  // namespace graft::systems
