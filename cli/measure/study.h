#pragma once

namespace CLI {
class App;
}

namespace graft::cli {

/// `graft study`: measures how often the laboratory's verdicts are right on this machine, with two
/// identical variants and one that is slowed down by a known amount.
void add_study(CLI::App& app);

}  // namespace graft::cli
