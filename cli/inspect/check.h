#pragma once

namespace CLI {
class App;
}

namespace graft::cli {

/// `graft check [WORKLOAD...]`: are compiled results eager's, and if not, how far are both from
/// fp64? Exit code 2 where a compiled result is worse than eager's.
void add_check(CLI::App& app);

}  // namespace graft::cli
