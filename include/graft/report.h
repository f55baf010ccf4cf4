// What a compiled function did and why.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "graft/export.h"

namespace graft {

/// Where the newest plan of a function stands.
enum class Verdict {
  NotCalled,  ///< no call yet
  Break,      ///< cannot be compiled; stays eager (`reason` names the operator and the next step)
  Compiling,  ///< recorded; compiling in the background, calls stay eager
  Proving,    ///< compiled; now compared with eager, then raced against it
  Faster,     ///< proven equal, and faster where Options::race asks: compiled code runs
  NotFaster,  ///< proven equal, not faster, or gives up too often: eager runs
  Mismatch,   ///< results differed: eager runs (`reason` holds both values)
  Failed,     ///< it could not be compiled, or the plan could not run: eager runs (`reason`)
};
GRAFT_API const char* to_string(Verdict verdict);

/// One recorded operator and what became of it.
struct OperatorReport {
  std::string name;   ///< "aten::mul.Tensor"
  std::string fate;   ///< "fused", "view", "extern"; "checked": read by the function's own code
  std::string why;    ///< reason when extern, empty otherwise
  int64_t count = 1;  ///< how often it was recorded with this fate
};

/// A choice that a pass made by what it estimated the ways to cost.
struct GRAFT_API Decision {
  struct Way {
    std::string name;  ///< "together", "v1"
    double ns = 0;     ///< estimated for a small machine, to compare ways by
  };
  std::string pass = {};  ///< "fuse"
  /// What its statements store to, as in the printed program: "%3 %5 + %7".
  std::string about = {};
  std::vector<Way> ways = {};
  size_t taken = 0;  ///< into `ways`
  /// Names the decision among those of one program. Decisions with the same id are overridden
  /// together.
  std::string id() const { return pass + ": " + about; }
  /// The cheapest of the ways that were not taken.
  const Way& runner_up() const;
  /// What the runner-up costs against the way taken.
  double ratio() const { return runner_up().ns / ways[taken].ns; }
};
/// Those first whose runner-up costs most nearly the same.
GRAFT_API std::vector<Decision> closest_first(std::vector<Decision> decisions);
/// As a table for people, the closest ones first; those beyond `most` are counted.
GRAFT_API std::string decisions_text(const std::vector<Decision>& decisions, size_t most);

struct GRAFT_API Report {
  std::string name;
  Verdict verdict = Verdict::NotCalled;
  std::string reason;  ///< why the verdict is what it is
  int64_t calls = 0;
  int64_t records = 0;  ///< runs recorded, usually one per argument layout
  /// How the newest call that was recorded differs from an earlier one, and what to do about it:
  /// "argument 1: sizes [2, 16] expected, [2, 32] came". Empty while there was one layout.
  std::string recorded_again = {};
  /// Options::sizes is Family: which sizes are free and what follows them, how many calls that
  /// served; or why plans are made for each layout.
  std::vector<std::string> families = {};
  int64_t family_calls = 0;  ///< calls served by a plan that was made without a record
  int64_t plans = 0;         ///< plans alive
  int64_t plan_hits = 0;     ///< calls served by compiled code
  int64_t breaks = 0;
  int64_t kernels = 0;  ///< kernels in the newest plan
  /// The newest plan was compiled before, by another process or an equal function of this one, or
  /// loaded from a file.
  bool found = false;
  /// Kernels of all plans of this function that were compiled; others were in the process's cache.
  int64_t kernels_compiled = 0;
  /// Time of recording and planning the newest plan, beyond its eager run.
  double record_ms = 0;
  double compile_ms = 0;  ///< time in code generation, newest plan
  double eager_us = 0;    ///< medians of the race; 0 before it
  double compiled_us = 0;
  bool compared = false;  ///< results were compared with eager's
  bool bitwise = false;   ///< and every output and changed input had eager's bits
  /// Of a region (its results take part in autograd): what the newest plan keeps in memory from the
  /// forward to the backward, beside arguments and results.
  int64_t kept_bytes = 0;
  /// What the newest plan holds of what it computed of captured tensors alone
  /// (Options::most_folded_bytes).
  int64_t folded_bytes = 0;
  int64_t backward_kernels = 0;  ///< kernels in the newest plan of a region's backward
  double max_abs_diff = 0;       ///< largest absolute difference seen in such comparisons
  /// Some results were further from eager's than the tolerance, and a reference in fp64 showed that
  /// eager's are the ones that are off.
  bool fp64_decided = false;
  std::vector<OperatorReport> operators;
  /// Mode::MaxAutotune: the ways that ran faster than those which the estimates had chosen, with
  /// what both plans took: "fuse: %3 + %5: apart, 3.2 ms against 4.1 ms".
  std::vector<std::string> tuned;

  /// A table for people, one fact per line.
  std::string text() const;
};
GRAFT_API std::ostream& operator<<(std::ostream& out, const Report& report);

}  // namespace graft
