// Measures a variant in a process of its own: nothing that ran before warms it, and a crash is a
// row of the result.
#pragma once

#include <string>

#include "cli/measure/bench_options.h"
#include "cli/measure/sweep.h"
#include "lab/run.h"

namespace CLI {
class App;
}

namespace graft::cli {

/// Starts this program again for one variant, on the first `threads` of the CPUs that it may use,
/// and waits for its row. A crash, a time-out (options.timeout) or an error gives a row with that
/// status.
lab::Row measure_in_process(const Case& c, const std::string& variant, const BenchOptions& options);

/// Adds the hidden subcommand that such a process runs.
void add_bench_child(CLI::App& app);

}  // namespace graft::cli
