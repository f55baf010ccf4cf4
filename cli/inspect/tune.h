#pragma once

namespace CLI {
class App;
}

namespace graft::cli {

/// `graft tune WORKLOAD`: times the ways that the cost model did not take, beside the one it took.
void add_tune(CLI::App& app);

}  // namespace graft::cli
