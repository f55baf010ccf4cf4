#include "lab/memory/ledger.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

namespace graft::lab::detail {

void Timeline::add(const MemoryPoint& point) {
  if (pending_ == 0 || point.live >= highest_.live) highest_ = point;
  last_ = point;
  if (++pending_ < stride_) return;
  points_.push_back(highest_);
  pending_ = 0;
  if (points_.size() < kMost) return;
  for (size_t i = 0; i < kMost / 2; ++i)
    points_[i] = std::max(points_[2 * i], points_[2 * i + 1],
                          [](const auto& a, const auto& b) { return a.live < b.live; });
  points_.resize(kMost / 2);
  stride_ *= 2;
}

std::vector<MemoryPoint> Timeline::points() const {
  std::vector<MemoryPoint> out = points_;
  if (pending_ > 0) out.push_back(highest_);
  if (out.empty() || out.back().seconds < last_.seconds) out.push_back(last_);
  return out;
}

namespace {

/// Raises the peak of a region. There are few.
void raise(std::vector<MemoryRange>& ranges, std::string_view region, int64_t bytes) {
  const auto same = [&](const MemoryRange& range) { return range.region == region; };
  auto found = std::find_if(ranges.begin(), ranges.end(), same);
  if (found == ranges.end())
    found = ranges.insert(found, {.region = std::string(region), .peak_bytes = bytes});
  found->peak_bytes = std::max(found->peak_bytes, bytes);
}

}  // namespace

Ledger::Ledger(MemoryOptions options, std::shared_ptr<Ledger> parent)
    : options_(std::move(options)), parent_(std::move(parent)) {}

void Ledger::start() {
  const std::lock_guard lock(mutex_);
  if (parent_ != nullptr) {
    const std::lock_guard parents(parent_->mutex_);
    live_ = parent_->live_;
    tensors_ = parent_->tensors_;
  }
  report_.peak_resident = -1;
  report_.start_bytes = live_;
  report_.start_tensors = report_.peak_tensors = tensors_;
  start_ = Clock::now();
  note();
  open_ = true;
}

void Ledger::reportMemoryUsage(void* block, int64_t bytes, size_t /*total_allocated*/,
                               size_t /*total_reserved*/, c10::Device device) {
  if (!open_ || !device.is_cpu() || block == nullptr || bytes == 0) return;
  if (bytes > 0) {
    allocated(block, bytes, current_label());
  } else {
    freed(block);
  }
}

void Ledger::allocated(void* block, int64_t bytes, const Label& label) {
  if (parent_ != nullptr) parent_->allocated(block, bytes, label);
  const std::lock_guard lock(mutex_);
  // An address that is allocated again was freed where no tracker saw it.
  if (const auto old = blocks_.find(block); old != blocks_.end()) take_out(old);
  blocks_[block] = {bytes, ++made_, label};
  live_ += bytes;
  ++tensors_;
  const int64_t grown = live_ - report_.start_bytes;
  if (!label.region.empty()) raise(innermost_, label.region, grown);
  if (grown > report_.peak_bytes) {
    report_.peak_bytes = grown;
    report_.peak_tensors = tensors_;
    report_.peak_seconds = seconds();
    made_at_peak_ = made_;
    gone_since_peak_.clear();
  }
  note();
}

std::optional<int64_t> Ledger::freed(void* block) {
  const std::optional<int64_t> known = parent_ != nullptr ? parent_->freed(block) : std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(block);
  if (found == blocks_.end() && !known) {
    ++report_.strange_frees;
    return std::nullopt;
  }
  ++report_.frees;
  const int64_t bytes = found == blocks_.end() ? *known : found->second.bytes;
  if (found != blocks_.end()) {
    take_out(found);
  } else {
    live_ -= bytes;
    --tensors_;
  }
  note();
  return bytes;
}

void Ledger::take_out(std::unordered_map<void*, Block>::iterator found) {
  Block& block = found->second;
  live_ -= block.bytes;
  --tensors_;
  if (block.number <= made_at_peak_) gone_since_peak_.push_back(std::move(block));
  blocks_.erase(found);
}

void Ledger::note() {
  const int64_t reserved = live_ + (options_.cached ? options_.cached() : 0);
  report_.peak_reserved = std::max(report_.peak_reserved, reserved - report_.start_bytes);
  timeline_.add({seconds(), live_, reserved});
}

double Ledger::seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

void Ledger::close() {
  const std::lock_guard lock(mutex_);
  if (!open_.exchange(false)) return;
  note();
  report_.seconds = seconds();
}

void Ledger::saw_resident(int64_t bytes) {
  if (parent_ != nullptr) parent_->saw_resident(bytes);
  const std::lock_guard lock(mutex_);
  report_.peak_resident = std::max(report_.peak_resident, bytes);
}

int64_t Ledger::live() const {
  const std::lock_guard lock(mutex_);
  return live_;
}

std::vector<MemoryOwner> Ledger::largest() const {
  std::map<std::tuple<std::string, std::string, int64_t>, int64_t> counts;
  const auto count = [&](const Block& block) {
    if (block.number <= made_at_peak_) ++counts[{block.label.op, block.label.region, block.bytes}];
  };
  for (const auto& [address, block] : blocks_) count(block);
  for (const Block& block : gone_since_peak_) count(block);
  std::vector<MemoryOwner> out;
  for (const auto& [key, number] : counts) {
    const auto& [op, region, bytes] = key;
    out.push_back({bytes, number, op, region});
  }
  std::stable_sort(out.begin(), out.end(), [](const MemoryOwner& a, const MemoryOwner& b) {
    return a.bytes * a.count > b.bytes * b.count;
  });
  if (out.size() > options_.largest) out.resize(options_.largest);
  return out;
}

std::vector<MemoryRange> Ledger::ranges() const {
  std::vector<MemoryRange> out;
  for (const auto& [region, peak] : innermost_) {
    for (size_t end = 0; end != std::string::npos;) {
      end = region.find('/', end + 1);
      raise(out, std::string_view(region).substr(0, end), peak);
    }
  }
  return out;
}

MemoryReport Ledger::report() const {
  const std::lock_guard lock(mutex_);
  MemoryReport out = report_;
  if (open_) out.seconds = seconds();
  out.allocations = made_;
  out.end_bytes = live_;
  out.end_tensors = tensors_;
  out.timeline = timeline_.points();
  out.largest = largest();
  out.ranges = ranges();
  return out;
}

}  // namespace graft::lab::detail
