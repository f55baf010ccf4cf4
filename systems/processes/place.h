// Where a process stands among others, and where they find each other: from options and the
// environment, checked before anything waits.
#pragma once

#include <string>

#include "graft/systems/processes.h"

namespace graft::systems {

struct Place {
  int rank = 0, size = 1;
  std::string file = {};  ///< of a file store, or
  std::string host = {};  ///< of a TCP store
  int port = 0;
};

/// Throws std::invalid_argument with what came, what was expected and what to do.
Place place_of(const GroupOptions& options);

}  // namespace graft::systems
