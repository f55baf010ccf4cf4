#pragma once

namespace CLI {
class App;
}

namespace graft::cli {

/// `graft bench`: eager, pooled eager, compiled and hand-written variants of the workloads, timed
/// in turns.
void add_bench(CLI::App& app);

}  // namespace graft::cli
