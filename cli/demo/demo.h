// graft demo: a real pretrained model, eager and compiled, and what each compiled part gains and
// costs.
#pragma once

#include <filesystem>
#include <string>

#include <graft/options.h>

#include "workloads/minilm/regions.h"

namespace CLI {
class App;
}

namespace graft::cli {

struct DemoOptions {
  std::filesystem::path model;  ///< MiniLM's folder; empty: the one that tools/setup.sh fetches
  /// Larger batches, matmuls chosen by timing, narrow intervals: minutes rather than one.
  bool full = false;
  std::string json;  ///< write every sample to this file
  std::string html;  ///< write a page with pictures to this file
  bool no_color = false;
  graft::Options compile;
  int threads = 0;  ///< 0: ATen's choice
  workloads::minilm::Cut cut = workloads::minilm::Cut::Blocks;
  /// The attention of the compiled side.
  workloads::minilm::Attention attention = workloads::minilm::Attention::Sdpa;
};

/// Results go to stdout, progress to stderr. Returns the process's exit code: 0, or 1 with a
/// message on stderr.
int run_demo(const DemoOptions& options);

/// Adds the subcommand `demo`.
void add_demo(CLI::App& app);

}  // namespace graft::cli
