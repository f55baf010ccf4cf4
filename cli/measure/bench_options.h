// The options of `graft bench`: from flags, a preset, and a TOML file.
#pragma once

#include <graft/options.h>
#include <graft/workload.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lab/timer.h"

namespace CLI {
class App;
}

namespace graft::cli {

struct BenchOptions {
  std::string set = std::string(workloads::kDefaultSet), filter;
  std::vector<std::string> axes, where;
  std::vector<std::string> variants;
  std::vector<std::string> own_peers;  ///< NAME=SCRIPT
  std::string preset = "default";
  double min_time = 0, max_time = 0, precision = -1;  ///< 0, 0, -1: the preset's
  int min_samples = 0, warmup = -1;                   ///< 0: the preset's; -1: until steady
  int threads = 0;                                    ///< 0: ATen's choice
  uint64_t seed = 0;
  bool quick = false, small = false, isolate = false, resume = false, peers = false;
  bool no_color = false, quiet = false, dump_config = false;
  double timeout = 600;  ///< seconds for a variant in a process of its own
  std::string json, csv, markdown, html, config, python = "python3";
  Options compile;

  lab::MeasureOptions measuring() const;
  /// The options that results depend on. A run may be resumed only with equal ones.
  std::map<std::string, std::string> identity() const;
};

/// Flags of the subcommand, which write to `options`; it must outlive the parse.
void add_bench_flags(CLI::App& command, BenchOptions& options);
/// Called after the parse: takes values from --config where no flag was given, then checks them.
void finish_options(CLI::App& command, BenchOptions& options);
/// The current options, as TOML that --config reads.
std::string as_toml(const CLI::App& command);

}  // namespace graft::cli
