// What `graft profile` looks at: a program with its regions named, eager and compiled.
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

/// The name that stands for the demo's model among the workloads.
inline constexpr const char* kMiniLm = "minilm";

struct SubjectOptions {
  std::string name;             ///< a workload, or kMiniLm
  bool small = false;           ///< a workload's tiny inputs; the model at batch 1, length 16
  uint64_t seed = 0;            ///< of a workload's inputs
  int64_t batch = 8;            ///< of the model
  int64_t length = 64;          ///< tokens of each text
  std::filesystem::path model;  ///< its folder; empty: the one that tools/setup.sh fetches
  Options compile;
};

/// A part that is compiled by itself, on the inputs that it has in the program.
struct SubjectRegion {
  std::string name;
  double calls = 1;  ///< in one run of the program
  workloads::Instance instance;
  workloads::CompiledCall compiled;  ///< its verdict is final
};

struct Subject {
  std::string title;
  /// One run each. Regions are lab ranges: of their name in the one, with lab::kCompiledPrefix
  /// before it in the other.
  std::function<void()> eager, compiled;
  std::vector<SubjectRegion> regions;
};

/// Compiles until every verdict is final. Throws UsageError for a name that is none.
/// Begins subject_steps() steps of `progress`, which may be null.
Subject make_subject(const SubjectOptions& options, lab::Progress* progress);

size_t subject_steps(const SubjectOptions& options);

}  // namespace graft::cli
