#pragma once

namespace CLI {
class App;
}

namespace graft::cli {

/// `graft history FOLDER`: each case over time. `graft export RUN.json`: a run in other forms.
void add_history(CLI::App& app);

}  // namespace graft::cli
