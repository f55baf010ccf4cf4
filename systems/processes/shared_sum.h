// Sums over processes of one machine, through memory that they share: no socket, no copy by the
// kernel. A tensor goes in pieces through a ring of slots that each process has. A piece has a
// portion for each process, which adds all processes' numbers of it in the order of the ranks; all
// read all sums: everybody gets the same bits, and reads less than three tensors, however many
// processes there are. A short piece is added by everybody as a whole: one wait fewer.
//
// A process that has put in its numbers and then does something else holds nobody up: who waits for
// its sums adds them up itself. Its own portion is in its slot for that, unless it was the last to
// put something in, and so adds up at once.
#pragma once

#include <graft/collective.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace c10d {
class Store;
}

namespace graft::systems {

/// The one of `list` whose tensor has the memory of this one. Throws c10::ValueError.
template <class List>
auto find_started(List& list, const at::Tensor& tensor) {
  const auto found = std::find_if(list.begin(), list.end(), [&](const auto& one) {
    return one.tensor.const_data_ptr() == tensor.const_data_ptr();
  });
  TORCH_CHECK_VALUE(found != list.end(), "a sum of ", tensor.sizes(),
                    " is awaited, and was not started with this memory");
  return found;
}

/// What the processes share, mapped.
class SharedSegment;

/// One thread at a time may use it. Errors are std::runtime_error.
class SharedSum : public Collective {
 public:
  /// Null where the processes share no memory: other machines or containers, or too little of it.
  /// All processes get one, or none does.
  static std::shared_ptr<SharedSum> join(c10d::Store& store, int rank, int size,
                                         std::chrono::milliseconds timeout);
  ~SharedSum() override;

  /// Puts in as many pieces as there is room for, sums what others put in, and never waits. Throws
  /// where others sum something else.
  void start(const at::Tensor& tensor) override;
  /// At once: the caller does nothing else before it waits, so that nobody must help it.
  enum class Awaited { Later, AtOnce };
  void start(const at::Tensor& tensor, Awaited awaited);
  /// Puts in, sums and reads pieces, in the order of the starts, until those of `tensor` are read.
  void wait(const at::Tensor& tensor) override;

 private:
  struct Work {
    at::Tensor tensor;
    at::Storage storage;  ///< stays, whatever becomes of the tensor
    char* data = nullptr;
    int64_t bytes = 0;
    int64_t first = 0;  ///< its first piece's number, of all
    int64_t pieces = 0;
    Awaited awaited;
    int64_t numel(int64_t of_bytes) const {
      return of_bytes / static_cast<int64_t>(tensor.element_size());
    }
  };
  struct Piece {
    const Work& work;
    int64_t number;
    char* data;
    int64_t bytes;
    bool is_short;
  };
  struct Portion {
    int64_t start, bytes;
  };

  explicit SharedSum(std::unique_ptr<SharedSegment> segment, std::chrono::milliseconds timeout);
  Piece piece(int64_t number) const;
  Portion portion(const Piece& piece, int rank) const;
  uint64_t label_of(const Piece& piece) const;
  bool go_on();
  void put_in();
  bool all_have_put(int64_t piece) const;
  bool sum_one();
  enum class Help { No, Yes };
  bool read_one(Help help);
  void add_up(const Piece& piece, int owner, char* also);

  const std::unique_ptr<SharedSegment> segment_;
  const std::chrono::milliseconds timeout_;
  std::deque<Work> under_way_;  ///< by their first pieces; done ones stay until they are awaited
  int64_t started_ = 0, put_ = 0, summed_ = 0, read_ = 0;  ///< pieces
};

}  // namespace graft::systems
