// A ring of plain sockets: what the loopback carries, without anything of a library's.
#pragma once

#include <graft/systems/processes.h>

#include <cstdint>

namespace graft::experiments {

class Ring {
 public:
  /// Connects each process of the group to the next. Throws std::runtime_error.
  explicit Ring(systems::Group& group);
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  /// Sends that many bytes to the next process while as many come from the one before.
  void pass(int64_t bytes);

 private:
  int next_ = -1, before_ = -1;
};

}  // namespace graft::experiments
