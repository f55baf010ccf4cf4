#pragma once

namespace CLI {
class App;
}

namespace graft::cli {

/// `graft explain WORKLOAD`: shows what was recorded, what became of it, and the report.
void add_explain(CLI::App& app);

}  // namespace graft::cli
