// From a trace to an executable plan: lower, passes, code.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graft/options.h"
#include "graft/report.h"
#include "ops/lower.h"
#include "passes/partition.h"
#include "passes/pipeline.h"
#include "record/trace.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/tune.h"
#include "runtime/proof/compare.h"
#include "runtime/proof/shadow.h"
#include "runtime/region/region.h"
#include "runtime/store/entry.h"

namespace graft::runtime {

struct CompileSettings {
  std::string name;
  Numerics numerics = Numerics::Exact;
  std::vector<std::string> skip_passes;
  std::map<std::string, std::string> decisions;  ///< Options::decisions
  ir::Target target;  ///< the machine, and the threads of the thread that will run it
  Mode mode = Mode::Default;
  Keep keep = Keep::LeastTime;
  Matmul matmul = Matmul::Any;
  bool cache = false;  ///< take what other processes kept, and keep for them
  int64_t most_folded_bytes = 0;
  bool ties = false;      ///< ops::LowerSettings::ties
  bool any_size = false;  ///< passes::Settings::any_size, and its constants
  std::shared_ptr<const std::set<int64_t>> constants = nullptr;
  /// at::Context::float32MatmulPrecision is medium: products of fp32 may round factors to bf16.
  bool short_factors = false;
  /// What tuning decided before; otherwise Mode::MaxAutotune tunes, and other modes take no choice.
  std::optional<Tuning> tuning = std::nullopt;
};

/// What a trace becomes before code is generated.
struct Scheduled {
  std::vector<OperatorReport> operators;
  std::optional<std::string> broken;  ///< the function cannot be compiled: why, and the next step
  Tolerance tolerance;
  std::string gives_up;  ///< why it may although eager would go on; empty: it may not
  Tuning tuning;
  ir::Target target;      ///< what it is scheduled for
  ir::Schedule schedule;  ///< empty when broken
  /// Of a region: that of its backward, and what both agreed on. `schedule` is the forward's.
  std::optional<ir::Schedule> backward;
  passes::Partition parts;
  /// With each pass's text and decisions, when asked for.
  std::vector<passes::PassRecord> records;
  /// Of all passes, in order.
  std::vector<Decision> decisions() const;
};

/// The one way from a trace to a schedule: lowering, tuning, passes. A function of its arguments
/// alone once `settings.tuning` is known. Throws std::logic_error where a pass is at fault.
Scheduled schedule(const record::Trace& trace, const CompileSettings& settings,
                   bool keep_text = false);

/// As schedule() lowers it, with the choices in `settings.tuning`.
ops::Lowered lower_as_scheduled(const record::Trace& trace, const CompileSettings& settings);
inline passes::Seam seam_of(const record::Trace::Backward& facts) {
  return {facts.arguments, facts.results, facts.operators};
}

/// What tuning of another record of the same operators decided is taken; nothing is timed. Programs
/// of such records at other sizes have one structure.
ops::Lowered lower_as_tuned(const record::Trace& trace, CompileSettings settings);
/// Its schedule, with the products in kernels that are worth it at its sizes. `records`: get the
/// decisions.
ir::Schedule schedule(ops::Lowered lowered, const CompileSettings& settings,
                      std::vector<passes::PassRecord>* records = nullptr);
/// How its plans for other sizes are compared with eager: at some of them its products are loops.
Tolerance tolerance_at_any_size(const record::Trace& trace, ops::Lowered lowered,
                                const CompileSettings& settings);

/// The passes alone: for a program that was not recorded.
ir::Schedule schedule(ir::Program program, const CompileSettings& settings);

using KernelCode = std::vector<std::shared_ptr<const codegen::Code>>;

/// A schedule with its machine code, ready to run.
struct Generated {
  std::unique_ptr<Plan> plan;
  KernelCode code;               ///< per kernel
  int64_t kernels_compiled = 0;  ///< others were compiled before in this process
  double compile_ms = 0;
};
/// `name`: for logs. `known`: the kernels' code, if it is known. Throws what the code generator and
/// Plan throw.
Generated generate(const ir::Schedule& schedule, const ir::Target& target, const std::string& name,
                   const KernelCode& known = {});

/// A plan that was found by timing others beside it (autotune.h).
struct Autotuned {
  std::map<std::string, std::string> decisions;  ///< as Options::decisions: the settings' and these
  std::vector<std::string> notes;                ///< one per way taken, as Report::tuned
};

struct Built {
  std::unique_ptr<Plan> plan;      ///< null when broken or failed
  std::shared_ptr<Region> region;  ///< null when it is none
  Tolerance tolerance;
  std::string gives_up;  ///< why it may although eager would go on; empty: it may not
  Tuning tuning;
  Autotuned autotuned;
  std::vector<OperatorReport> operators;
  std::optional<std::string> broken;  ///< the function cannot be compiled: why, and the next step
  std::optional<std::string> failed;  ///< Graft could not do what it should
  int64_t kernels_compiled = 0;
  double plan_ms = 0;     ///< lowering, passes, bindings
  double compile_ms = 0;  ///< code generation
  ir::Times times;        ///< what the passes estimated by
  KernelCode code;  ///< of the plan, then of the region's backward; empty where `stored` has it
  /// For other processes; null where the plan cannot be kept.
  std::shared_ptr<const StoredEntry> stored;
  Scales scales;       ///< if `found`, where they were needed before
  bool found = false;  ///< nothing was compiled: another process had kept it
};

/// How far results may be from eager's, by what lowering says of the program's operators.
Tolerance tolerance_of(const record::Trace& trace, const ops::Lowered& lowered);

/// Never throws. `directory`: GRAFT_TRACE's; not empty: dumps what was built there.
Built compile_trace(const record::Trace& trace, const CompileSettings& settings,
                    const std::string& directory = {}) noexcept;

/// The plan of that trace that another process kept, or a file that this one was given: no kernel
/// is compiled. No plan where there is none, or it cannot be used. Never throws.
Built find_trace(const record::Trace& trace, const CompileSettings& settings) noexcept;

/// The trace, the program after each pass, the kernels, as text; the last part, under
/// "== source ==", is the kernels as C++. `scheduled`: with its text.
std::string describe(const record::Trace& trace, const Scheduled& scheduled);

/// Writes the text of describe(), one file per part, and each kernel's LLVM IR and assembly, into a
/// new folder of `directory` (mode 0700). What could not be written is named in a warning.
void dump(const std::string& directory, const std::string& name, const record::Trace& trace,
          const Scheduled& scheduled) noexcept;
/// Adds a file to the newest dump of that name.
void dump_report(const std::string& directory, const std::string& name,
                 const std::string& text) noexcept;

}  // namespace graft::runtime
