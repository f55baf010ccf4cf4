#pragma once

namespace CLI {
class App;
}

namespace graft::cli {

/// `graft bench`: times eager, pooled eager, compiled and hand-written variants of the workloads in
/// turns.
void add_bench(CLI::App& app);

}  // namespace graft::cli
