#pragma once

namespace CLI {
class App;
}

namespace graft::cli {

/// `graft report`: shows runs as a page, as text and as separate files.
void add_report(CLI::App& app);

}  // namespace graft::cli
