#pragma once

namespace CLI {
class App;
}

namespace graft::cli {

/// `graft list`: lists the workloads.
void add_list(CLI::App& app);

}  // namespace graft::cli
