#include "systems/processes/shared_sum.h"

#include <ATen/ops/add.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>

#include "systems/processes/shared_segment.h"

namespace graft::systems {

std::shared_ptr<SharedSum> SharedSum::join(c10d::Store& store, int rank, int size,
                                           std::chrono::milliseconds timeout) {
  auto segment = SharedSegment::join(store, rank, size);
  if (segment == nullptr) return nullptr;
  return std::shared_ptr<SharedSum>(new SharedSum(std::move(segment), timeout));
}

SharedSum::SharedSum(std::unique_ptr<SharedSegment> segment, std::chrono::milliseconds timeout)
    : segment_(std::move(segment)), timeout_(timeout) {}
SharedSum::~SharedSum() = default;

void SharedSum::start(const at::Tensor& tensor) {
  const int64_t bytes = static_cast<int64_t>(tensor.nbytes());
  Work work{tensor.view(-1), started_, (bytes + kSlotBytes - 1) / kSlotBytes};
  started_ += work.pieces;
  under_way_.push_back(std::move(work));
  put_in();
}

const SharedSum::Work& SharedSum::work_of(int64_t piece) const {
  return *std::find_if(under_way_.begin(), under_way_.end(), [&](const Work& work) {
    return piece >= work.first && piece < work.first + work.pieces;
  });
}

at::Tensor SharedSum::part(int64_t piece) const {
  const Work& work = work_of(piece);
  const int64_t whole = kSlotBytes / static_cast<int64_t>(work.tensor.element_size());
  const int64_t first = (piece - work.first) * whole;
  return work.tensor.narrow(0, first, std::min(whole, work.tensor.numel() - first));
}

at::Tensor SharedSum::slot(int rank, int64_t piece, const at::Tensor& like) const {
  return at::from_blob(segment_->slot(rank, piece), like.sizes(), like.options());
}

/// Of the tensor and the piece's place in it.
uint64_t SharedSum::label_of(int64_t piece) const {
  const Work& work = work_of(piece);
  return (static_cast<uint64_t>(work.tensor.numel()) * 64 +
          static_cast<uint64_t>(work.tensor.scalar_type())) *
             0x9e3779b97f4a7c15 +
         static_cast<uint64_t>(piece - work.first);
}

/// A slot is free when every process has read what was in it before.
void SharedSum::put_in() {
  while (put_ < started_) {
    for (int rank = 0; rank < segment_->size(); ++rank)
      if (put_ - segment_->read(rank) >= kSlots) return;
    const at::Tensor from = part(put_);
    std::memcpy(segment_->slot(segment_->rank(), put_), from.const_data_ptr(), from.nbytes());
    segment_->label(segment_->rank(), put_) = label_of(put_);
    segment_->tell_put(++put_);
  }
}

bool SharedSum::read_one() {
  for (int rank = 0; rank < segment_->size(); ++rank)
    if (segment_->put(rank) <= read_) return false;
  for (int rank = 0; rank < segment_->size(); ++rank)
    if (segment_->label(rank, read_) != label_of(read_))
      throw std::runtime_error("process " + std::to_string(rank) +
                               " sums a tensor of another size or dtype, or in another order");
  sum(read_);
  segment_->tell_read(++read_);
  return true;
}

/// Added in the order of the ranks; of 16 bits in fp32, rounded once.
void SharedSum::sum(int64_t piece) {
  at::Tensor to = part(piece);
  const bool narrow = to.element_size() == 2 && at::isFloatingType(to.scalar_type());
  if (segment_->size() == 1) return;
  if (segment_->size() == 2) {
    at::add_out(to, slot(0, piece, to), slot(1, piece, to));
    return;
  }
  at::Tensor all = slot(0, piece, to);
  all = narrow ? all.to(at::kFloat) : all.add(slot(1, piece, to));
  for (int rank = narrow ? 1 : 2; rank < segment_->size(); ++rank) all.add_(slot(rank, piece, to));
  to.copy_(all);
}

void SharedSum::wait(const at::Tensor& tensor) {
  const auto found = find_started(under_way_, tensor);
  const int64_t end = found->first + found->pieces;
  const auto until = std::chrono::steady_clock::now() + timeout_;
  while (read_ < end) {
    const uint32_t seen = segment_->news();
    put_in();
    if (!read_one()) segment_->wait_for_news(seen, until);
  }
  under_way_.erase(found);
}

}  // namespace graft::systems
