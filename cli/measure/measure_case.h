// Measures one case: a workload in one configuration, its variants in turns or one of them alone.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/measure/bench_options.h"
#include "cli/measure/sweep.h"
#include "lab/run.h"

namespace graft::cli {

/// Receives the part that is done, 0 to 1, and what is being done.
using Say = std::function<void(double, const std::string&)>;

/// The variants that were asked for and that the workload has, in the order of
/// BenchOptions::variants. Throws UsageError for an invalid configuration.
std::vector<std::string> variants_of(const Case& c, const BenchOptions& options);

/// Why there is not memory enough to measure the case, without the run in fp64 if need be; empty if
/// there is. Throws likewise.
std::string lacks_memory(const Case& c, const BenchOptions& options);

/// Measures all variants in this process, in turns. One that throws gives a row with its error.
std::vector<lab::Row> measure_in_turns(const Case& c, const BenchOptions& options, const Say& say);

/// Measures one variant as the first thing that this process does: its first call is cold. Throws
/// what the variant throws.
lab::Row measure_alone(const Case& c, const std::string& variant, const BenchOptions& options);

}  // namespace graft::cli
