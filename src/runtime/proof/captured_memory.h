// What a function has captured beside tensors: the closure's own bytes, and the caller's variables
// on the stack that it refers to. A call that changes them (a count of steps, a flag, a scheduler's
// state) does what a plan does not repeat.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graft/detail/core.h"

namespace graft::runtime {

/// While it lives, this thread's stack below that frame is Graft's own: what changes there is no
/// variable of a caller's. (Words of a closure may be what was left in its padding.)
class OwnFrames {
 public:
  explicit OwnFrames(const void* frame);
  ~OwnFrames();
  OwnFrames(const OwnFrames&) = delete;
  OwnFrames& operator=(const OwnFrames&) = delete;

 private:
  uintptr_t before_;
};

/// Half a word of what a captured address leads to on the stack: a number, or half of a pointer.
/// Asked by other threads, or when the variable is gone, it says false.
struct HalfWord {
  uintptr_t address = 0;
  uint32_t recorded = 0;
  const void* thread = nullptr;
  bool is_other() const;
};
/// Those of all variables on this thread's stack that the call's function captured, as they are
/// now.
std::vector<HalfWord> captured_variables(const detail::CallBase& call);

/// A copy of that memory as it is before a call. To be made and asked by one thread: of another
/// one's stack nothing is kept, nor of the heap, where it is not known how much belongs to whom.
class CapturedMemory {
 public:
  explicit CapturedMemory(const detail::CallBase& call);
  /// What is another now, and what to do; nothing where all is as it was.
  std::optional<std::string> changed() const;

 private:
  struct Part {
    uintptr_t from = 0;
    std::vector<uint32_t> halves;  ///< of words
  };
  void keep(uintptr_t from, uintptr_t to);

  std::span<const std::byte> own_;  ///< the call itself, which gets its result meanwhile
  std::vector<Part> parts_;
};

}  // namespace graft::runtime
