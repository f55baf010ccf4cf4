// torch.compile, measured by a Python process of its own: tools/peers/inductor.py.
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <string>

#include "cli/bench_result.h"

namespace graft::cli {

struct PeerOptions {
  std::string python = "python3";
  int threads = 1;
  double min_time = 1;
};

/// Speaks lines with the script: a case's name there, its result as JSON back. The process waits
/// between cases, so that each is measured next to the same case here.
class Peer {
 public:
  /// Starts Python and waits for its imports. Throws UsageError if it, the script or torch is not
  /// there.
  explicit Peer(const PeerOptions& options);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  /// Measures one workload, compiling included: that takes seconds, and minutes for gptq_block.
  VariantResult measure(const std::string& workload);
  const std::string& version() const { return version_; }

 private:
  /// The script's next line; empty if it has ended.
  std::string read_line();

  pid_t pid_ = -1;
  FILE* to_ = nullptr;
  FILE* from_ = nullptr;
  std::string version_;
};

}  // namespace graft::cli
