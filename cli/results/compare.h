#pragma once

namespace CLI {
class App;
}

namespace graft::cli {

/// `graft compare A.json B.json` shows what changed. `graft gate RUN.json --baseline A.json` exits
/// with code 2 if something became slower.
void add_compare(CLI::App& app);

}  // namespace graft::cli
