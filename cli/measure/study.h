#pragma once

namespace CLI {
class App;
}

namespace graft::cli {

/// `graft study`: how often the laboratory's verdicts are right on this machine: two identical
/// variants, and one that is slowed down by a known part.
void add_study(CLI::App& app);

}  // namespace graft::cli
