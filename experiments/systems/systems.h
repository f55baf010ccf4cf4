#pragma once

namespace CLI {
class App;
}

namespace graft::experiments {

/// `graft systems`: the optimisations of the write-ups, each beside its baseline: what is claimed,
/// what is measured here, and the verdict.
void add_systems(CLI::App& app);

}  // namespace graft::experiments
