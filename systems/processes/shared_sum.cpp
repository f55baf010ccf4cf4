#include "systems/processes/shared_sum.h"

#include <ATen/ops/add.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>

#include "systems/processes/shared_segment.h"

namespace graft::systems {

namespace {

/// A piece of so few bytes has no portions.
constexpr int64_t kShortBytes = 64 << 10;

bool is_short(const at::Tensor& piece) {
  return static_cast<int64_t>(piece.nbytes()) <= kShortBytes;
}

at::Tensor over(char* memory, const at::Tensor& like) {
  return at::from_blob(memory, like.sizes(), like.options());
}

void copy(const at::Tensor& to, const at::Tensor& from) {
  if (from.numel() == 0) return;
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
  go_on();
}

/// Nothing is left put in without the process's own portion and not summed: others could not help.
bool SharedSum::go_on() {
  put_in();
  bool summed = false;
  while (sum_one()) summed = true;
  return summed;
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
  return over(segment_->slot(rank, piece), like);
}

/// Whole lines: none that a process reads is being written.
at::Tensor SharedSum::portion(const at::Tensor& piece, int rank) const {
  const int64_t line = kLineBytes / static_cast<int64_t>(piece.element_size());
  const int64_t each =
      (piece.numel() + segment_->size() * line - 1) / (segment_->size() * line) * line;
  const int64_t first = std::min(rank * each, piece.numel());
  return piece.narrow(0, first, std::min(each, piece.numel() - first));
}

/// Of the tensor and the piece's place in it.
uint64_t SharedSum::label_of(int64_t piece) const {
  const Work& work = work_of(piece);
  return (static_cast<uint64_t>(work.tensor.numel()) * 64 +
          static_cast<uint64_t>(work.tensor.scalar_type())) *
             0x9e3779b97f4a7c15 +
         static_cast<uint64_t>(piece - work.first);
}

bool SharedSum::all_have_put(int64_t piece) const {
  for (int rank = 0; rank < segment_->size(); ++rank)
    if (rank != segment_->rank() && segment_->put(rank) <= piece) return false;
  return true;
}

/// A slot is free when every process has read what was in it before.
void SharedSum::put_in() {
  const int own = segment_->rank(), size = segment_->size();
  for (; put_ < started_; segment_->tell_put(++put_)) {
    for (int rank = 0; rank < size; ++rank)
      if (put_ - segment_->read(rank) >= kSlots) return;
    const at::Tensor from = part(put_), to = slot(own, put_, from);
    const bool all = is_short(from) || !all_have_put(put_);
    if (all) copy(to, from);
    for (int rank = 0; rank < size && !all; ++rank)
      if (rank != own) copy(portion(to, rank), portion(from, rank));
    segment_->has_all(own, put_) = all;
    segment_->label(own, put_) = label_of(put_);
  }
}

bool SharedSum::sum_one() {
  const int own = segment_->rank();
  if (put_ <= summed_ || !all_have_put(summed_)) return false;
  for (int rank = 0; rank < segment_->size(); ++rank)
    if (segment_->label(rank, summed_) != label_of(summed_))
      throw std::runtime_error("process " + std::to_string(rank) +
                               " sums a tensor of another size or dtype, or in another order");
  at::Tensor piece = part(summed_);
  if (segment_->size() == 1) {
    // It is its own sum.
  } else if (is_short(piece)) {
    add_up(summed_, own, piece);
  } else {
    at::Tensor to = portion(piece, own);
    const at::Tensor sums = over(segment_->sums(own, summed_), to);
    add_up(summed_, own, sums);
    copy(to, sums);
  }
  segment_->tell_summed(++summed_);
  return true;
}

/// The owner's portion, or all of a short piece: in the order of the ranks; of 16 bits in fp32,
/// rounded once. `to` may be the tensor itself, except its own portion.
void SharedSum::add_up(int64_t piece, int owner, at::Tensor to) {
  const at::Tensor all = part(piece);
  const bool is_own = owner == segment_->rank() && !is_short(all);
  if (to.numel() == 0) return;
  const auto term = [&](int rank) {
    const at::Tensor from = is_own && rank == owner ? all : slot(rank, piece, all);
    return is_short(all) ? from : portion(from, owner);
  };
  if (to.element_size() == 2 && at::isFloatingType(to.scalar_type())) {
    at::Tensor wide = term(0).to(at::kFloat);
    for (int rank = 1; rank < segment_->size(); ++rank) wide.add_(term(rank));
    to.copy_(wide);
  } else {
    at::add_out(to, term(0), term(1));
    for (int rank = 2; rank < segment_->size(); ++rank) to.add_(term(rank));
  }
}

bool SharedSum::read_one(Help help) {
  if (read_ == summed_) return false;
  const at::Tensor to = part(read_);
  const auto is_summed = [&](int rank) { return segment_->summed(rank) > read_; };
  const int portions = is_short(to) ? 0 : segment_->size();
  for (int rank = 0; rank < portions; ++rank)
    if (!is_summed(rank) && (help == Help::No || !segment_->has_all(rank, read_))) return false;
  for (int rank = 0; rank < portions; ++rank) {
    if (rank == segment_->rank()) continue;
    const at::Tensor its = portion(to, rank);
    if (is_summed(rank))
      copy(its, over(segment_->sums(rank, read_), its));
    else
      add_up(read_, rank, its);
  }
  segment_->tell_read(++read_);
  return true;
}

void SharedSum::wait(const at::Tensor& tensor) {
  const auto found = find_started(under_way_, tensor);
  const int64_t end = found->first + found->pieces;
  const auto until = std::chrono::steady_clock::now() + timeout_;
  while (read_ < end) {
    const uint32_t seen = segment_->news();
    const bool summed = go_on(), read = read_one(Help::No);
    if (summed || read || segment_->wait_for_news(seen) || read_one(Help::Yes)) continue;
    segment_->check_others(seen, until);
  }
  under_way_.erase(found);
}

}  // namespace graft::systems
