// From a trace to an executable plan: lower, passes, code.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graft/options.h"
#include "graft/report.h"
#include "ops/lower.h"
#include "passes/pipeline.h"
#include "record/trace.h"
#include "runtime/plan/plan.h"
#include "runtime/proof/compare.h"
#include "runtime/proof/shadow.h"

namespace graft::runtime {

struct Built {
  std::unique_ptr<Plan> plan;  ///< null when broken or failed
  Tolerance tolerance;
  std::vector<OperatorReport> operators;
  std::optional<std::string> broken;  ///< the function cannot be compiled: why, and the next step
  std::optional<std::string> failed;  ///< Graft could not do what it should
  int64_t kernels_compiled = 0;
  double plan_ms = 0;     ///< lowering, passes, bindings
  double compile_ms = 0;  ///< code generation
};

struct CompileSettings {
  std::string name;
  Numerics numerics = Numerics::Exact;
  std::vector<std::string> skip_passes;
  int threads = 1;  ///< of the thread that will run it
  Mode mode = Mode::Default;
};

/// How far results may be from eager's, by what lowering says of the program's operators.
Tolerance tolerance_of(const record::Trace& trace, const ops::Lowered& lowered);

/// Never throws.
Built compile_trace(const record::Trace& trace, const CompileSettings& settings) noexcept;

/// Never throws: empty when they cannot be built.
Scales compile_scales(const record::Trace& trace, const CompileSettings& settings) noexcept;

ops::LowerSettings lower_settings(const CompileSettings& settings);
passes::Settings pass_settings(const CompileSettings& settings);

/// The trace, the program after each pass, the kernels, as text; the last part, under
/// "== source ==", is the kernels as C++.
std::string describe_trace(const record::Trace& trace, const CompileSettings& settings);

/// GRAFT_TRACE: writes the text of describe_trace, one file per part, and each kernel's LLVM IR and
/// assembly, into a new folder of `directory` (mode 0700). What could not be written is named in a
/// warning.
void dump_trace(const std::string& directory, const record::Trace& trace,
                const CompileSettings& settings) noexcept;
/// Adds a file to the newest dump of that name.
void dump_report(const std::string& directory, const std::string& name,
                 const std::string& text) noexcept;

}  // namespace graft::runtime
