// The options that all experiments have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/measure/bench_options.h"

namespace CLI {
class App;
}

namespace graft::experiments {

struct Settings {
  bool quick = false;  ///< few sizes and trials: done within a minute and a half
  bool small = false;  ///< tiny sizes: to try the command
  bool resume = false, peers = false, no_color = false, quiet = false;
  int trials = 0, warmup = -1;  ///< 0, -1: 20 and 5; with `quick` 7 and 2
  int threads = 0;              ///< 0: ATen's choice
  uint64_t seed = 0;
  double timeout = 600;  ///< seconds for an answer of a peer
  std::string json, html, markdown, python = "python3";

  int trial_count() const { return trials > 0 ? trials : quick || small ? 7 : 20; }
  int warmup_count() const { return warmup >= 0 ? warmup : quick || small ? 2 : 5; }
  /// For measuring a case of an experiment with these variants.
  cli::BenchOptions bench(const std::vector<std::string>& variants) const;
};

/// Adds the flags, which write to `settings`; it must outlive the parse.
void add_settings(CLI::App& command, Settings& settings);
/// Throws cli::UsageError for files that cannot be written, and for --resume without a file.
void check(const Settings& settings);

}  // namespace graft::experiments
