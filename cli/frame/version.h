// The version this command was built as.
#pragma once

#include <graft/version.h>

namespace graft::cli {

inline constexpr const char* kVersion = GRAFT_VERSION;

}  // namespace graft::cli
