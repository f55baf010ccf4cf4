#pragma once

namespace CLI {
class App;
}

namespace graft::cli {

/// Adds `graft gptq`, which quantises layers eagerly and with a compiled block, each in a process
/// of its own, and reports what compiling gains, costs and changes (exit code 2 if a check fails),
/// and the hidden subcommand that those processes run.
void add_gptq(CLI::App& app);

}  // namespace graft::cli
