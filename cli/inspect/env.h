#pragma once

namespace CLI {
class App;
}

namespace graft::cli {

/// `graft env`: shows the machine and the build.
void add_env(CLI::App& app);

}  // namespace graft::cli
