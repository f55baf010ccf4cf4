#pragma once

namespace CLI {
class App;
}

namespace graft::cli {

/// `graft report`: what runs found, as a page, as text and as separate files.
void add_report(CLI::App& app);

}  // namespace graft::cli
