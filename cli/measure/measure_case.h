// Measures one case: a workload in one configuration, its variants in turns or one alone.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/measure/bench_options.h"
#include "cli/measure/sweep.h"
#include "lab/run.h"

namespace graft::cli {

/// The part done (0 to 1), and what is being done.
using Say = std::function<void(double, const std::string&)>;

/// The variants that were asked for and that the workload has, in their order. Throws UsageError if
/// the configuration is not one.
std::vector<std::string> variants_of(const Case& c, const BenchOptions& options);

/// All variants in one process, in turns. One that throws is a row that says so.
std::vector<lab::Row> measure_in_turns(const Case& c, const BenchOptions& options, const Say& say);

/// One variant, with nothing before it in this process: its first call is cold. Throws what the
/// variant throws.
lab::Row measure_alone(const Case& c, const std::string& variant, const BenchOptions& options);

}  // namespace graft::cli
