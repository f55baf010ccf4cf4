#pragma once

namespace CLI {
class App;
}

namespace graft::cli {

/// `graft memory`: what a workload's variants allocate, who makes the largest, and a picture of it;
/// after the memory sentinel has passed.
void add_memory(CLI::App& app);

}  // namespace graft::cli
