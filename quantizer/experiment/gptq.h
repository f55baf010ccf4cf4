#pragma once

namespace CLI {
class App;
}

namespace graft::cli {

/// `graft gptq`: quantises layers eagerly and with a compiled block, each in a process of its own,
/// and says what compiling gains, costs and changes. Exit code 2 where a proof fails. Also the
/// hidden subcommand of those processes.
void add_gptq(CLI::App& app);

}  // namespace graft::cli
