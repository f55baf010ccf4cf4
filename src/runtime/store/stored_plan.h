// What an entry holds of a plan, and of its proof.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/backend.h"
#include "graft/report.h"
#include "ir/kernel.h"
#include "runtime/plan/tune.h"
#include "runtime/proof/compare.h"

namespace graft::runtime {

/// All that lowering, passes and code generation made of a program.
struct StoredPlan {
  std::vector<OperatorReport> operators;
  Tolerance tolerance;
  std::string gives_up;  ///< ops::Lowered::gives_up
  Tuning tuning;
  std::map<std::string, std::string> decisions;  ///< Autotuned::decisions
  std::vector<std::string> notes;                ///< Report::tuned
  ir::Times times;                               ///< what the passes estimated by
  /// Of a region: of passes::Partition.
  std::vector<int> kept;
  int64_t kept_bytes = 0;
  std::vector<int> recomputed_from;
  /// Per kernel: those of the schedule, then those of the backward's.
  std::vector<std::shared_ptr<const codegen::Code>> code;
};
/// `backward`: of a region.
std::string bytes_of(const StoredPlan& plan, const ir::Schedule& schedule,
                     const std::optional<ir::Schedule>& backward);
/// Throws std::runtime_error where the bytes are not what bytes_of() made.
StoredPlan plan_of(std::string_view bytes, ir::Schedule& schedule,
                   std::optional<ir::Schedule>& backward);

/// Of kernels alone.
std::string bytes_of(const std::vector<std::shared_ptr<const codegen::Code>>& code);
std::vector<std::shared_ptr<const codegen::Code>> code_of(std::string_view bytes);

/// What Scales are made of (runtime/proof/shadow.h).
struct StoredScale {
  ir::Schedule schedule;
  std::vector<std::shared_ptr<const codegen::Code>> code;  ///< per kernel
};
struct StoredScales {
  std::optional<StoredScale> replay, reference;
  std::vector<StoredScale> disturbed;
};
/// Of the plan, and of a region's backward.
std::string bytes_of(const std::vector<StoredScales>& scales);
std::vector<StoredScales> scales_of(std::string_view bytes);

/// What was found out about the plan on live data.
struct Proof {
  bool proven = false;  ///< equal to eager's
  bool raced = false;   ///< … and faster or not, on so many threads
  bool faster = false;
  int threads = 0;
  bool bitwise = false;
  bool fp64_decided = false;
  double max_abs = 0;
  double eager_us = 0, compiled_us = 0;  ///< medians
};
std::string bytes_of(const Proof& proof);
Proof proof_of(std::string_view bytes);
/// "bitwise eager's; 1.2 ms eager, 0.4 ms compiled, on 2 threads"
std::string text_of(const Proof& proof);

/// What code is made by and for, a fact per line: the versions of Graft, its code generator,
/// libtorch and LLVM, and the processor. Threads are none of it. Equal text, equal machine. Empty
/// where a library cannot be told from others: then nothing is kept.
std::string machine_text(const ir::Target& target);
/// The first line that differs, as "…: … there, … here"; empty where none does.
std::string difference_of_machines(const std::string& there, const std::string& here);

}  // namespace graft::runtime
