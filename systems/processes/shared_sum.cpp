#include "systems/processes/shared_sum.h"

#include <algorithm>
#include <cstring>

#include "systems/processes/add_terms.h"
#include "systems/processes/shared_segment.h"

namespace graft::systems {

namespace {

/// A piece of so few bytes has no portions.
constexpr int64_t kShortBytes = 64 << 10;

void copy(char* to, const char* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
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
  start(tensor, Awaited::Later);
}

void SharedSum::start(const at::Tensor& tensor, Awaited awaited) {
  const auto bytes = static_cast<int64_t>(tensor.nbytes());
  under_way_.push_back({.tensor = tensor,
                        .storage = tensor.storage(),
                        .data = static_cast<char*>(tensor.mutable_data_ptr()),
                        .bytes = bytes,
                        .first = started_,
                        .pieces = (bytes + kSlotBytes - 1) / kSlotBytes,
                        .awaited = awaited});
  started_ += under_way_.back().pieces;
  go_on();
}

/// Nothing is left put in without the process's own portion and not summed, unless the process only
/// waits for it: others could not help.
bool SharedSum::go_on() {
  put_in();
  bool summed = false;
  while (sum_one()) summed = true;
  return summed;
}

SharedSum::Piece SharedSum::piece(int64_t number) const {
  const Work& work = *std::find_if(under_way_.begin(), under_way_.end(), [&](const Work& one) {
    return number >= one.first && number < one.first + one.pieces;
  });
  // A slot holds whole elements of every dtype.
  const int64_t start = (number - work.first) * kSlotBytes;
  const int64_t bytes = std::min(kSlotBytes, work.bytes - start);
  return {work, number, work.data + start, bytes, bytes <= kShortBytes};
}

/// Whole lines: none that a process reads is being written.
SharedSum::Portion SharedSum::portion(const Piece& piece, int rank) const {
  if (piece.is_short) return {0, piece.bytes};
  const int64_t lines = segment_->size() * kLineBytes;
  const int64_t each = (piece.bytes + lines - 1) / lines * kLineBytes;
  const int64_t start = std::min(rank * each, piece.bytes);
  return {start, std::min(each, piece.bytes - start)};
}

/// Of the tensor and the piece's place in it.
uint64_t SharedSum::label_of(const Piece& piece) const {
  return (static_cast<uint64_t>(piece.work.numel(piece.work.bytes)) * 64 +
          static_cast<uint64_t>(piece.work.tensor.scalar_type())) *
             0x9e3779b97f4a7c15 +
         static_cast<uint64_t>(piece.number - piece.work.first);
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
    const Piece from = piece(put_);
    char* to = segment_->slot(own, put_);
    const bool all = from.is_short || (from.work.awaited == Awaited::Later && !all_have_put(put_));
    if (all) copy(to, from.data, from.bytes);
    for (int rank = 0; rank < size && !all; ++rank)
      if (const Portion part = portion(from, rank); rank != own)
        copy(to + part.start, from.data + part.start, part.bytes);
    segment_->has_all(own, put_) = all;
    segment_->label(own, put_) = label_of(from);
  }
}

bool SharedSum::sum_one() {
  const int own = segment_->rank();
  if (put_ <= summed_ || !all_have_put(summed_)) return false;
  const Piece next = piece(summed_);
  for (int rank = 0; rank < segment_->size(); ++rank)
    if (segment_->label(rank, summed_) != label_of(next))
      throw std::runtime_error("process " + std::to_string(rank) +
                               " sums a tensor of another size or dtype, or in another order");
  if (segment_->size() > 1)
    add_up(next, own, next.is_short ? nullptr : segment_->sums(own, summed_));
  segment_->tell_summed(++summed_);
  return true;
}

/// The owner's portion, or all of a short piece, into the tensor, and into `also` where that isn't
/// null: in the order of the ranks. The own numbers of the own portion are the tensor's.
void SharedSum::add_up(const Piece& piece, int owner, char* also) {
  const Portion part = portion(piece, owner);
  if (part.bytes == 0) return;
  std::vector<const char*> terms;
  for (int rank = 0; rank < segment_->size(); ++rank) {
    const bool is_own = rank == owner && owner == segment_->rank() && !piece.is_short;
    terms.push_back((is_own ? piece.data : segment_->slot(rank, piece.number)) + part.start);
  }
  add_terms(piece.work.tensor.scalar_type(), terms, piece.work.numel(part.bytes),
            piece.data + part.start, also);
}

bool SharedSum::read_one(Help help) {
  if (read_ == summed_) return false;
  const Piece next = piece(read_);
  const auto is_summed = [&](int rank) { return segment_->summed(rank) > read_; };
  const int portions = next.is_short ? 0 : segment_->size();
  for (int rank = 0; rank < portions; ++rank)
    if (!is_summed(rank) && (help == Help::No || !segment_->has_all(rank, read_))) return false;
  for (int rank = 0; rank < portions; ++rank) {
    if (rank == segment_->rank()) continue;
    if (const Portion its = portion(next, rank); is_summed(rank))
      copy(next.data + its.start, segment_->sums(rank, read_), its.bytes);
    else
      add_up(next, rank, nullptr);
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
