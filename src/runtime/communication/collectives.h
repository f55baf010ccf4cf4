// The collectives of this process by their names.
#pragma once

#include <memory>
#include <string>

#include "graft/collective.h"

namespace graft::runtime {

/// Throws std::invalid_argument where there is none of that name. Thread-safe.
std::shared_ptr<Collective> find_collective(const std::string& name);

}  // namespace graft::runtime
