#pragma once

namespace CLI {
class App;
}

namespace graft::cli {

/// `graft check [WORKLOAD...]`: are compiled results equal to eager's, and if not, how far are both
/// from fp64? Exit code 2 if a compiled result is worse than eager's.
void add_check(CLI::App& app);

}  // namespace graft::cli
