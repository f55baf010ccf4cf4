// A variant in a process of its own: nothing that ran before warms it, and whatever it does to its
// process is a row of the result.
#pragma once

#include <string>

#include "cli/measure/bench_options.h"
#include "cli/measure/sweep.h"
#include "lab/run.h"

namespace CLI {
class App;
}

namespace graft::cli {

/// Starts this program anew for one variant, on the first `threads` of the CPUs it may use, and
/// waits for its row. A crash, a time-out (options.timeout) and an error are rows with their
/// status.
lab::Row measure_in_process(const Case& c, const std::string& variant, const BenchOptions& options);

/// The hidden subcommand that such a process runs.
void add_bench_child(CLI::App& app);

}  // namespace graft::cli
