#pragma once

namespace CLI {
class App;
}

namespace graft::cli {

/// `graft history FOLDER` shows each case over time. `graft export RUN.json` writes a run in other
/// formats.
void add_history(CLI::App& app);

}  // namespace graft::cli
