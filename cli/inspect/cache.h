#pragma once

namespace CLI {
class App;
}

namespace graft::cli {

/// `graft cache`: shows and clears the plans that processes keep for each other.
void add_cache(CLI::App& app);

}  // namespace graft::cli
