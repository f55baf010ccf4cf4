#include "lab/memory/sentinel.h"

#include <ATen/ops/empty.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "lab/memory/memory.h"
#include "lab/memory/resident.h"
#include "lab/table.h"
#include "lab/words.h"

namespace graft::lab {
namespace {

constexpr double kTolerance = 0.001;
constexpr int64_t kWarmUp = int64_t{1} << 20;

}  // namespace

std::string Sentinel::text() const {
  const auto size = [](int64_t bytes) { return bytes_text(static_cast<double>(bytes)); };
  std::string out = passed ? "memory sentinel passed" : "memory sentinel FAILED";
  out += ": asked for " + std::to_string(requested) + " B, saw " + std::to_string(measured) +
         " B (" + number(error * 100) + " % off), ";
  out += freed ? "all freed" : "not all freed";
  if (resident >= 0) {
    out += "; resident memory grew by " + size(resident) + " when written, " + size(resident_left) +
           " stayed";
  }
  return out;
}

Sentinel judge_sentinel(int64_t requested, int64_t before, int64_t during, int64_t after) {
  Sentinel out;
  out.requested = requested;
  out.measured = during - before;
  out.error =
      std::abs(static_cast<double>(out.measured - requested)) / static_cast<double>(requested);
  out.freed = out.measured > 0 && after == before;
  out.passed = out.freed && out.error < kTolerance;
  return out;
}

Sentinel memory_sentinel(int64_t bytes) {
  if (bytes < 1) {
    throw std::invalid_argument("the memory sentinel allocates at least 1 byte; came " +
                                std::to_string(bytes) + '.');
  }
  at::empty({kWarmUp}, at::kByte).fill_(1);  // starts threads, which take memory of their own
  const MemoryTracker tracker;
  const int64_t before = tracker.live_bytes(), resident_before = resident_bytes();
  at::Tensor tensor = at::empty({bytes}, at::kByte);
  const int64_t during = tracker.live_bytes();
  tensor.fill_(1);
  const int64_t resident_during = resident_bytes();
  tensor.reset();
  Sentinel out = judge_sentinel(bytes, before, during, tracker.live_bytes());
  if (resident_before >= 0) {
    out.resident = resident_during - resident_before;
    out.resident_left = resident_bytes() - resident_before;
  }
  return out;
}

nlohmann::json to_json(const Sentinel& s) {
  const bool known = s.resident >= 0;
  return {{"requested", s.requested},
          {"measured", s.measured},
          {"error", s.error},
          {"freed", s.freed},
          {"passed", s.passed},
          {"resident", known ? nlohmann::json(s.resident) : nlohmann::json()},
          {"resident_left", known ? nlohmann::json(s.resident_left) : nlohmann::json()}};
}

}  // namespace graft::lab
