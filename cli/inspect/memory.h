#pragma once

namespace CLI {
class App;
}

namespace graft::cli {

/// `graft memory`: shows what a workload's variants allocate, who makes the largest allocations,
/// and a picture. It checks the memory sentinel first.
void add_memory(CLI::App& app);

}  // namespace graft::cli
