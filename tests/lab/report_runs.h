// Runs made up for the tests of the reports.
#pragma once

#include <string>
#include <vector>

#include "lab/run.h"

namespace graft::lab {

/// Samples around a median: 1 % up and down, in turns.
inline std::vector<double> around(double median_ms, int count = 21) {
  std::vector<double> out;
  for (int i = 0; i < count; ++i) out.push_back(median_ms * (1 + 0.01 * ((i * 7) % 11 - 5) / 5.0));
  return out;
}

inline Row row_of(const std::string& name, const std::string& variant, double median_ms) {
  Row row;
  row.name = name;
  row.variant = variant;
  row.samples_ms = around(median_ms);
  return row;
}

/// Two cases: one faster when compiled, one slower.
inline Run small_run() {
  Run run;
  run.context = {{"cpu", "a CPU"}, {"threads", 2}, {"torch", "2.11.0"}, {"memory_bytes", 1 << 30}};
  run.rows = {row_of("rope", "eager", 8), row_of("rope", "graft", 2), row_of("sum", "eager", 1),
              row_of("sum", "graft", 3)};
  run.rows[1].compile_ms = 60;
  run.rows[3].compile_ms = 5;
  return run;
}

}  // namespace graft::lab
