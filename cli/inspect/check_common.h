// What the parts of `graft check` share.
#pragma once

#include <graft/options.h>
#include <graft/report.h>

#include <cstdint>
#include <string>
#include <vector>

#include "graft/workload.h"

namespace graft::cli {

constexpr int kWorse = 2;  ///< the exit code

struct CheckOptions {
  std::vector<std::string> names, axes;
  std::string set = std::string(workloads::kDefaultSet), filter, json;
  uint64_t seed = 0;
  int threads = 0;  ///< 0: ATen's choice
  int steps = 0;    ///< of training; 0: one call
  bool small = false, bitwise = false, verbose = false, no_color = false, quiet = false;
  Options compile;
};

/// Its verdict is final. Without the race: compiled code is to be seen, also where it is not
/// faster.
workloads::CompiledCall compiled_for_check(const workloads::Instance& instance, Options compile,
                                           const std::string& name);

struct HowItRan {
  std::string ran;          ///< "compiled", "eager: graph break"
  std::string reason;       ///< of eager
  bool mismatched = false;  ///< Graft found its own compiled code wrong
};
HowItRan how_it_ran(const Report& report);

}  // namespace graft::cli
