#include "systems/processes/shared_sum.h"

#include <ATen/ops/add.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>

#include "systems/processes/shared_segment.h"

namespace graft::systems {

namespace {

constexpr int64_t kLineBytes = 64;
/// Of so few bytes each process reads all numbers and adds them itself: one wait fewer.
constexpr int64_t kWholeBytes = 64 << 10;

bool is_whole(const at::Tensor& piece) {
  return static_cast<int64_t>(piece.nbytes()) <= kWholeBytes;
}

void copy(const at::Tensor& to, const at::Tensor& from) {
  std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), from.nbytes());
}

}  // namespace

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
  while (sum_one()) {
  }
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

/// Whole lines: two processes do not write the same.
at::Tensor SharedSum::portion(const at::Tensor& piece, int rank) const {
  const int64_t line = kLineBytes / static_cast<int64_t>(piece.element_size());
  const int64_t each =
      (piece.numel() + segment_->size() * line - 1) / (segment_->size() * line) * line;
  const int64_t first = std::min(rank * each, piece.numel());
  return piece.narrow(0, first, std::min(each, piece.numel() - first));
}

/// Whoever sums a portion of the piece for this process.
template <class Do>
void SharedSum::for_others(const at::Tensor& piece, Do what) const {
  if (is_whole(piece)) return;
  for (int rank = 0; rank < segment_->size(); ++rank)
    if (rank != segment_->rank()) what(rank);
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
    const at::Tensor from = part(put_), to = slot(segment_->rank(), put_, from);
    if (is_whole(from)) copy(to, from);
    for_others(from, [&](int rank) { copy(portion(to, rank), portion(from, rank)); });
    segment_->label(segment_->rank(), put_) = label_of(put_);
    segment_->tell_put(++put_);
  }
}

bool SharedSum::sum_one() {
  for (int rank = 0; rank < segment_->size(); ++rank)
    if (segment_->put(rank) <= summed_) return false;
  for (int rank = 0; rank < segment_->size(); ++rank)
    if (segment_->label(rank, summed_) != label_of(summed_))
      throw std::runtime_error("process " + std::to_string(rank) +
                               " sums a tensor of another size or dtype, or in another order");
  sum(summed_);
  segment_->tell_summed(++summed_);
  return true;
}

/// Added in the order of the ranks; of 16 bits in fp32, rounded once.
void SharedSum::sum(int64_t piece) {
  const int own = segment_->rank(), size = segment_->size();
  const at::Tensor all = part(piece);
  const bool whole = is_whole(all);
  const auto own_part = [&](const at::Tensor& of) { return whole ? of : portion(of, own); };
  const at::Tensor to = own_part(all);
  if (size == 1 || to.numel() == 0) return;
  const auto term = [&](int rank) {
    return rank == own && !whole ? to : own_part(slot(rank, piece, all));
  };
  // Others read what is in this process's slot: its numbers, or the sums.
  at::Tensor sums = whole ? to : own_part(slot(own, piece, all));
  if (to.element_size() == 2 && at::isFloatingType(to.scalar_type())) {
    at::Tensor wide = term(0).to(at::kFloat);
    for (int rank = 1; rank < size; ++rank) wide.add_(term(rank));
    sums.copy_(wide);
  } else {
    at::add_out(sums, term(0), term(1));
    for (int rank = 2; rank < size; ++rank) sums.add_(term(rank));
  }
  if (!whole) copy(to, sums);
}

bool SharedSum::read_one() {
  if (read_ == summed_) return false;
  const at::Tensor to = part(read_);
  bool all_summed = true;
  for_others(to, [&](int rank) { all_summed = all_summed && segment_->summed(rank) > read_; });
  if (!all_summed) return false;
  for_others(to, [&](int rank) { copy(portion(to, rank), portion(slot(rank, read_, to), rank)); });
  segment_->tell_read(++read_);
  return true;
}

void SharedSum::wait(const at::Tensor& tensor) {
  const auto found = find_started(under_way_, tensor);
  const int64_t end = found->first + found->pieces;
  const auto until = std::chrono::steady_clock::now() + timeout_;
  while (read_ < end) {
    const uint32_t seen = segment_->news();
    put_in();
    const bool summed = sum_one(), read = read_one();
    if (!summed && !read) segment_->wait_for_news(seen, until);
  }
  under_way_.erase(found);
}

}  // namespace graft::systems
