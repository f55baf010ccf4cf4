#pragma once

namespace CLI {
class App;
}

namespace graft::cli {

/// `graft compile`: compiles a workload and writes its plan into a file.
void add_compile(CLI::App& app);

}  // namespace graft::cli
