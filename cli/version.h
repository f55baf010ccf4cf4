// The version this command was built as.
#pragma once

namespace graft::cli {

#ifndef GRAFT_VERSION
#define GRAFT_VERSION "0.1.0"
#endif
inline constexpr const char* kVersion = GRAFT_VERSION;

}  // namespace graft::cli
