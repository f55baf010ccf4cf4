#include "runtime/proof/captured_memory.h"

#include <pthread.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace graft::runtime {

namespace {

/// How far behind a variable its object may reach (a scheduler, a trainer with its counts).
constexpr uintptr_t kReach = 512;

struct Stack {
  uintptr_t low = 0, high = 0;
};

thread_local uintptr_t t_own_frames_end = 0;

/// The thread's stack from where Graft was called.
Stack callers_stack() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return {};
  void* base = nullptr;
  size_t bytes = 0;
  const bool known = pthread_attr_getstack(&attributes, &base, &bytes) == 0;
  pthread_attr_destroy(&attributes);
  if (!known) return {};
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  return {std::max(here, t_own_frames_end), reinterpret_cast<uintptr_t>(base) + bytes};
}

/// Of any memory of the stack, whatever lies there.
__attribute__((no_sanitize("address"), noinline)) uint32_t word_at(uintptr_t address) {
  return *reinterpret_cast<const volatile uint32_t*>(address);
}

/// Calls fn(address, stack) for each address of the stack among the function's bytes.
template <class Fn>
void each_on_stack(std::span<const std::byte> function, Fn fn) {
  const Stack stack = callers_stack();
  for (size_t at = 0; at + sizeof(uintptr_t) <= function.size(); at += sizeof(uintptr_t)) {
    uintptr_t word = 0;
    std::memcpy(&word, function.data() + at, sizeof word);
    if (word >= stack.low && word < stack.high) fn(word, stack);
  }
}

std::string number_text(uint32_t word) {
  return std::to_string(static_cast<int32_t>(word));
}

}  // namespace

OwnFrames::OwnFrames(const void* frame)
    : before_(std::exchange(t_own_frames_end, reinterpret_cast<uintptr_t>(frame))) {}
OwnFrames::~OwnFrames() {
  t_own_frames_end = before_;
}

/// A thread's own memory lies with its stack: where one is, the other is.
bool StackWord::is_other() const {
  return thread == &t_own_frames_end &&
         address >= reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) &&
         word_at(address) != recorded;
}

std::vector<StackWord> captured_variables(const detail::CallBase& call) {
  std::vector<StackWord> words;
  each_on_stack(call.function_memory(), [&](uintptr_t variable, const Stack& stack) {
    constexpr uintptr_t kWord = sizeof(uint32_t);
    const uintptr_t from = variable / kWord * kWord;  // a flag may lie within one
    for (uintptr_t at = from; at < from + 2 * kWord && at + kWord <= stack.high; at += kWord)
      words.push_back({at, word_at(at), &t_own_frames_end});
  });
  return words;
}

CapturedMemory::CapturedMemory(const detail::CallBase& call) : own_(call.own_memory()) {
  const std::span<const std::byte> function = call.function_memory();
  const auto first = reinterpret_cast<uintptr_t>(function.data());
  keep(first, first + function.size());
  each_on_stack(function, [&](uintptr_t variable, const Stack& stack) {
    keep(variable, std::min(variable + kReach, stack.high));
  });
}

void CapturedMemory::keep(uintptr_t from, uintptr_t to) {
  constexpr uintptr_t kWord = sizeof(uint32_t);
  Part part{(from + kWord - 1) / kWord * kWord, {}};
  for (uintptr_t at = part.from; at + kWord <= to; at += kWord) part.words.push_back(word_at(at));
  parts_.push_back(std::move(part));
}

std::optional<std::string> CapturedMemory::changed() const {
  const auto own = reinterpret_cast<uintptr_t>(own_.data());
  for (const Part& part : parts_)
    for (size_t k = 0; k < part.words.size(); ++k) {
      const uintptr_t at = part.from + k * sizeof(uint32_t);
      if (at >= own && at < own + own_.size()) continue;
      const uint32_t now = word_at(at);
      if (now == part.words[k]) continue;
      return "the function changes a variable that it captured (a word of it from " +
             number_text(part.words[k]) + " to " + number_text(now) +
             "), as a count of its calls, which a plan does not (or another thread changed what "
             "lies beside it on the stack); change it outside, and pass what depends on it as an "
             "argument (graft::Number, or a condition on a tensor)";
    }
  return std::nullopt;
}

}  // namespace graft::runtime
