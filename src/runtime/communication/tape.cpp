#include "runtime/communication/tape.h"

#include <ATen/ops/where.h>

#include <algorithm>

#include "runtime/communication/collectives.h"

namespace graft::runtime {
namespace {

thread_local Tape* t_tape = nullptr;

}  // namespace

Tape* Tape::current() {
  return t_tape;
}

Tape::Scope::Scope(Tape* tape, Mode mode) : outer_(t_tape) {
  if (tape == nullptr) return;
  tape->mode_ = mode;
  tape->under_way_.clear();
  tape->next_ = 0;
  tape->differs_ = false;
  t_tape = tape;
}

Tape::Scope::~Scope() {
  t_tape = outer_;
}

void Tape::start(const at::Tensor& tensor, const std::string& name) {
  if (mode_ == Mode::Mute) return;
  const size_t place = next_++;
  under_way_.push_back({tensor.const_data_ptr(), place});
  if (mode_ == Mode::Keep) {
    kept_.push_back({name, tensor.clone(), {}});
    return find_collective(name)->start(tensor);
  }
  differs_ = differs_ || place >= kept_.size() || kept_[place].name != name ||
             kept_[place].given.sizes() != tensor.sizes() ||
             kept_[place].given.scalar_type() != tensor.scalar_type();
}

void Tape::wait(const at::Tensor& tensor, const std::string& name) {
  if (mode_ == Mode::Mute) return;
  if (mode_ == Mode::Keep) find_collective(name)->wait(tensor);
  const size_t place = end(tensor);
  if (differs_) return;
  Kept& kept = kept_[place];
  if (mode_ == Mode::Keep) {
    kept.sum = tensor.clone();
    return;
  }
  const at::Tensor same =
      tensor.eq(kept.given).logical_or_(tensor.isnan().logical_and_(kept.given.isnan()));
  if (same.all().item<bool>()) {
    tensor.copy_(kept.sum);
  } else if (!at::isFloatingType(tensor.scalar_type())) {
    differs_ = true;
  } else {
    tensor.copy_(at::where(same, kept.sum, tensor.sub(kept.given).add_(kept.sum)));
  }
}

/// Ends what was started of this memory; its place on the tape.
size_t Tape::end(const at::Tensor& tensor) {
  const auto found = std::find_if(under_way_.begin(), under_way_.end(), [&](const UnderWay& one) {
    return one.memory == tensor.const_data_ptr();
  });
  if (found == under_way_.end()) {
    differs_ = true;
    return 0;
  }
  const size_t place = found->place;
  under_way_.erase(found);
  return place;
}

}  // namespace graft::runtime
