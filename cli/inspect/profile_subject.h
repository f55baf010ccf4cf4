// The program that `graft profile` measures, eager and compiled, with its regions named.
#pragma once

#include <graft/options.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "graft/workload.h"
#include "lab/progress.h"

namespace graft::cli {

/// The name by which the demo's model is chosen, beside the workloads' names.
inline constexpr const char* kMiniLm = "minilm";

struct SubjectOptions {
  std::string name;               ///< a workload, or kMiniLm
  bool small = false;             ///< a workload's tiny inputs; the model at batch 1, length 16
  uint64_t seed = 0;              ///< of a workload's inputs
  std::vector<std::string> axes;  ///< of a workload: "rows=64"
  int64_t batch = 8;              ///< of the model
  int64_t length = 64;            ///< tokens of each text
  std::filesystem::path model;    ///< its folder; empty: the one that tools/setup.sh fetches
  Options compile;
};

/// A part that is compiled on its own, with the inputs that it gets in the program.
struct SubjectRegion {
  std::string name;
  double calls = 1;  ///< calls in one run of the program
  workloads::Instance instance;
  workloads::CompiledCall compiled;  ///< its verdict is final
};

struct Subject {
  std::string title;
  /// Each runs the program once. Regions are profile ranges, named as they are in the eager program
  /// and with lab::kCompiledPrefix before the name in the compiled one.
  std::function<void()> eager, compiled;
  std::vector<SubjectRegion> regions;
};

/// Compiles until every verdict is final. Throws UsageError for an unknown name. Begins
/// subject_steps() steps of `progress`, which may be null.
Subject make_subject(const SubjectOptions& options, lab::Progress* progress);

size_t subject_steps(const SubjectOptions& options);

}  // namespace graft::cli
