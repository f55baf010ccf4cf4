// The version this command was built as.
#pragma once

namespace graft::cli {

inline constexpr const char* kVersion = GRAFT_VERSION;

}  // namespace graft::cli
