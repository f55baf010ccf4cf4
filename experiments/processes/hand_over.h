// A ring of copies through memory that processes share: what it carries, without sums.
#pragma once

#include <graft/systems/processes.h>

#include <cstdint>

namespace graft::experiments {

class HandOver {
 public:
  /// Maps the memory of all processes of the group. Throws std::runtime_error.
  explicit HandOver(systems::Group& group);
  ~HandOver();
  HandOver(const HandOver&) = delete;
  HandOver& operator=(const HandOver&) = delete;

  /// Copies `from` to where the next process copies it from, and as many bytes of the one before
  /// to `to`.
  void pass(const char* from, char* to, int64_t bytes);

 private:
  struct Place;
  Place* places_ = nullptr;
  int rank_, size_;
  int64_t passed_ = 0;  ///< pieces
};

}  // namespace graft::experiments
