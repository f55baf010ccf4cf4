#pragma once

namespace CLI {
class App;
}

namespace graft::cli {

/// `graft profile WORKLOAD`: shows where the time goes, eager and compiled, and what is worth
/// compiling.
void add_profile(CLI::App& app);

}  // namespace graft::cli
