#include "runtime/function/trial.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "runtime/communication/tape.h"
#include "runtime/plan/frame.h"
#include "runtime/process/worker.h"

namespace graft::runtime {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSecondsOfTrial = 0.15;  ///< of running, per way
constexpr int kMostRuns = 25;             ///< of each side
constexpr int kFewestRuns = 3;

/// The dtype of the views of a block; Byte where one is of integers, which may be indices.
c10::ScalarType type_in(int block, const std::vector<const ViewSpec*>& views) {
  auto type = c10::ScalarType::Undefined;
  for (const ViewSpec* spec : views) {
    if (spec->place.block != block) continue;
    const bool same = type == c10::ScalarType::Undefined || type == spec->view.dtype;
    type = same && c10::isFloatingType(spec->view.dtype) ? spec->view.dtype : c10::ScalarType::Byte;
  }
  return type == c10::ScalarType::Undefined ? c10::ScalarType::Byte : type;
}

/// Numbers from 0.25 to 0.73, which no function is slow on; 0 for integers.
void fill(const c10::Storage& storage, c10::ScalarType type) {
  constexpr int64_t kPiece = 61 << 12;
  const auto count =
      static_cast<int64_t>(storage.nbytes()) / static_cast<int64_t>(c10::elementSize(type));
  const at::Tensor all = at::empty({0}, type).set_(storage, 0, {count}, {1});
  if (!c10::isFloatingType(type)) {
    all.zero_();
    return;
  }
  const at::Tensor piece = at::arange(std::min(kPiece, count), at::kLong)
                               .remainder_(61)
                               .to(at::kFloat)
                               .mul_(1.0 / 128)
                               .add_(0.25);
  for (int64_t first = 0; first < count; first += kPiece) {
    const int64_t length = std::min(kPiece, count - first);
    all.slice(0, first, first + length).copy_(piece.slice(0, 0, length));
  }
}

}  // namespace

OwnData::OwnData(const Plan& plan, size_t arguments) {
  std::vector<const ViewSpec*> views;
  for (size_t i = 0; i < arguments; ++i) views.push_back(&plan.argument_view(i));
  for (size_t i = 0; i < plan.captured_count(); ++i) views.push_back(&plan.captured_view(i));
  for (const Block& block : plan.blocks())
    storages_.push_back(block.is_callers() ? make_storage(block.bytes) : c10::Storage());
  for (size_t b = 0; b < storages_.size(); ++b)
    if (storages_[b]) fill(storages_[b], type_in(static_cast<int>(b), views));
  for (size_t i = 0; i < views.size(); ++i)
    (i < arguments ? arguments_ : captured_).push_back(tensor(*views[i]));
  for (const at::Tensor& argument : arguments_) args_.tensors.push_back(&argument);
}

double OwnData::seconds(const Plan& plan) const {
  std::vector<at::Tensor> results(plan.result_count());
  Tape nobody_hears;
  const Tape::Scope scope(&nobody_hears, Tape::Mode::Mute);
  const auto start = Clock::now();
  const bool done = plan.run(args_, captured_.data(), results.data()) == Plan::Outcome::Done;
  return done ? std::chrono::duration<double>(Clock::now() - start).count()
              : std::numeric_limits<double>::infinity();
}

at::Tensor OwnData::tensor(const ViewSpec& spec) const {
  if (spec.place.block < 0) return {};
  return make_view(spec, storages_[static_cast<size_t>(spec.place.block)], spec.place.offset);
}

namespace {

void read(std::span<const char> memory) {
  constexpr size_t kLine = 64;
  char sum = 0;
  for (size_t k = 0; k < memory.size(); k += kLine) sum = static_cast<char>(sum ^ memory[k]);
  [[maybe_unused]] volatile char kept = sum;  // or nothing would be read
}

}  // namespace

Pair race(const OwnData& data, const Plan& before, const Plan& other, double left,
          std::span<const char> between) {
  const auto start = Clock::now();
  double running = 0;
  const auto run = [&](const Plan& plan) {
    read(between);
    const double seconds = data.seconds(plan);
    running += seconds;
    return seconds;
  };
  // The first runs warm up, and are all there is where they take the whole budget.
  Pair least{run(before), run(other)};
  for (int runs = 0; runs < kMostRuns && !Worker::instance().stopping(); ++runs) {
    const double spent = std::chrono::duration<double>(Clock::now() - start).count();
    if (spent >= left || (runs >= kFewestRuns && running > kSecondsOfTrial)) break;
    const Pair now{run(before), run(other)};
    least = {std::min(least.before, now.before), std::min(least.other, now.other)};
  }
  return least;
}

}  // namespace graft::runtime
