// Runs in formats that other programs read.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lab/run.h"

namespace graft::lab {

/// CSV (RFC 4180), one line per row: case, variant, status, and the statistics in milliseconds.
std::string to_csv(const Run& run);

/// Google Benchmark's JSON, which its tools (compare.py) read: each sample is a repetition, and
/// mean, median and stddev are aggregates.
/// https://github.com/google/benchmark/blob/main/docs/tools.md
nlohmann::json to_google_benchmark(const Run& run);

}  // namespace graft::lab
