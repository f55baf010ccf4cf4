#pragma once

namespace CLI {
class App;
}

namespace graft::experiments {

/// `graft allreduce`: sums over processes by size and number of processes, beside Gloo alone, the
/// loopback and a memory copy.
void add_all_reduce(CLI::App& app);

}  // namespace graft::experiments
