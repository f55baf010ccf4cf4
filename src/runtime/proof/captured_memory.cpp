#include "runtime/proof/captured_memory.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace graft::runtime {

namespace {

/// How far behind a variable its object may reach (a scheduler, a trainer with its counts).
constexpr uintptr_t kReach = 512;

constexpr uintptr_t kHalf = sizeof(uint32_t);  ///< of a word: what is compared

thread_local uintptr_t t_own_frames_end = 0;

/// Where this thread's stack ends; 0: not known. (Of the first thread Linux says it in a file.)
uintptr_t find_stack_end() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
  void* base = nullptr;
  size_t bytes = 0;
  const bool known = pthread_attr_getstack(&attributes, &base, &bytes) == 0;
  pthread_attr_destroy(&attributes);
  return known ? reinterpret_cast<uintptr_t>(base) + bytes : 0;
}
uintptr_t stack_end() {
  thread_local const uintptr_t end = find_stack_end();
  return end;
}

/// Of any memory of the stack, whatever lies there.
__attribute__((no_sanitize("address"), noinline)) uint32_t half_at(uintptr_t address) {
  return *reinterpret_cast<const volatile uint32_t*>(address);
}

/// Calls fn(address) for each address of the callers' stack among the function's bytes.
template <class Fn>
void each_on_stack(std::span<const std::byte> function, Fn fn) {
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  const uintptr_t low = std::max(here, t_own_frames_end), high = stack_end();
  for (size_t at = 0; at + sizeof(uintptr_t) <= function.size(); at += sizeof(uintptr_t)) {
    uintptr_t word = 0;
    std::memcpy(&word, function.data() + at, sizeof word);
    if (word >= low && word < high) fn(word);
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
bool HalfWord::is_other() const {
  return thread == &t_own_frames_end &&
         address >= reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) &&
         half_at(address) != recorded;
}

std::vector<HalfWord> captured_variables(const detail::CallBase& call) {
  std::vector<HalfWord> halves;
  each_on_stack(call.function_memory(), [&](uintptr_t variable) {
    const uintptr_t from = variable / kHalf * kHalf;  // a flag may lie within one
    for (uintptr_t at = from; at < from + 2 * kHalf && at + kHalf <= stack_end(); at += kHalf)
      halves.push_back({at, half_at(at), &t_own_frames_end});
  });
  return halves;
}

CapturedMemory::CapturedMemory(const detail::CallBase& call) : own_(call.own_memory()) {
  const std::span<const std::byte> function = call.function_memory();
  const auto first = reinterpret_cast<uintptr_t>(function.data());
  keep(first, first + function.size());
  each_on_stack(function, [&](uintptr_t variable) {
    keep(variable, std::min(variable + kReach, stack_end()));
  });
}

void CapturedMemory::keep(uintptr_t from, uintptr_t to) {
  Part part{(from + kHalf - 1) / kHalf * kHalf, {}};
  for (uintptr_t at = part.from; at + kHalf <= to; at += kHalf) part.halves.push_back(half_at(at));
  parts_.push_back(std::move(part));
}

std::optional<std::string> CapturedMemory::changed() const {
  const auto own = reinterpret_cast<uintptr_t>(own_.data());
  for (const Part& part : parts_)
    for (size_t k = 0; k < part.halves.size(); ++k) {
      const uintptr_t at = part.from + k * kHalf;
      if (at >= own && at < own + own_.size()) continue;
      const uint32_t now = half_at(at);
      if (now == part.halves[k]) continue;
      return "the function changes a variable that it captured (a word of it from " +
             number_text(part.halves[k]) + " to " + number_text(now) +
             "), as a count of its calls, which a plan does not (or another thread changed what "
             "lies beside it on the stack); change it outside, and pass what depends on it as an "
             "argument (graft::Number, or a condition on a tensor)";
    }
  return std::nullopt;
}

}  // namespace graft::runtime
