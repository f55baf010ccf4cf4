// Words for tables and summaries.
#pragma once

#include <cstdint>
#include <string>

namespace graft::cli {

/// "1 layer", "2 layers".
inline std::string counted(int64_t n, const std::string& what) {
  return std::to_string(n) + ' ' + what + (n == 1 ? "" : "s");
}

}  // namespace graft::cli
