#include "experiments/processes/hand_over.h"

#include <ATen/ops/tensor.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace graft::experiments {
namespace {

constexpr int64_t kPieceBytes = 512 << 10, kPieces = 4;
constexpr int kSpins = 1000;  // before another process gets the core

}  // namespace

struct HandOver::Place {
  alignas(128) std::atomic<int64_t> written;
  alignas(128) std::atomic<int64_t> read;  ///< of what the process before has written
  alignas(4096) char pieces[kPieces][kPieceBytes];
};

HandOver::HandOver(systems::Group& group) : rank_(group.rank()), size_(group.size()) {
  const int64_t first_process =
      group.all_gather(at::tensor({static_cast<int64_t>(getpid())}))[0].item<int64_t>();
  const std::string name = "/graft-hand-over-" + std::to_string(first_process);
  const size_t bytes = static_cast<size_t>(size_) * sizeof(Place);
  if (rank_ == 0) shm_unlink(name.c_str());  // of a process that had this id and was killed
  if (rank_ != 0) group.barrier();
  const int file = shm_open(name.c_str(), rank_ == 0 ? O_CREAT | O_EXCL | O_RDWR : O_RDWR, 0600);
  const bool there = file >= 0 && (rank_ != 0 || ftruncate(file, static_cast<off_t>(bytes)) == 0);
  void* memory =
      there ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  const std::string why = std::strerror(errno);
  if (file >= 0) close(file);
  if (rank_ == 0) group.barrier();
  group.barrier();
  if (rank_ == 0) shm_unlink(name.c_str());
  if (memory == MAP_FAILED) throw std::runtime_error("no memory to share: " + why);
  places_ = static_cast<Place*>(memory);
}

HandOver::~HandOver() {
  if (places_ != nullptr) munmap(places_, static_cast<size_t>(size_) * sizeof(Place));
}

void HandOver::pass(const char* from, char* to, int64_t bytes) {
  Place &own = places_[rank_], &next = places_[(rank_ + 1) % size_],
        &before = places_[(rank_ + size_ - 1) % size_];
  const int64_t pieces = (bytes + kPieceBytes - 1) / kPieceBytes;
  int64_t written = 0, read = 0;
  for (int spins = 0; read < pieces || written < pieces; ++spins) {
    const auto start = [&](int64_t piece) { return piece * kPieceBytes; };
    const auto length = [&](int64_t piece) {
      return static_cast<size_t>(std::min(kPieceBytes, bytes - start(piece)));
    };
    if (const int64_t piece = passed_ + written;
        written < pieces && piece - next.read.load(std::memory_order_acquire) < kPieces) {
      std::memcpy(own.pieces[piece % kPieces], from + start(written), length(written));
      own.written.store(passed_ + ++written, std::memory_order_release);
      spins = 0;
    } else if (read < pieces && before.written.load(std::memory_order_acquire) > passed_ + read) {
      std::memcpy(to + start(read), before.pieces[(passed_ + read) % kPieces], length(read));
      own.read.store(passed_ + ++read, std::memory_order_release);
      spins = 0;
    } else if (spins > kSpins) {
      sched_yield();
    }
  }
  passed_ += pieces;
}

}  // namespace graft::experiments
