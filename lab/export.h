// Runs in the forms of other programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lab/run.h"

namespace graft::lab {

/// A line a row, RFC 4180: case, variant, status, and the statistics in milliseconds.
std::string to_csv(const Run& run);

/// Google Benchmark's JSON: each sample a repetition, then mean, median and stddev as aggregates.
/// Its tools (compare.py) read it. https://github.com/google/benchmark/blob/main/docs/tools.md
nlohmann::json to_google_benchmark(const Run& run);

}  // namespace graft::lab
