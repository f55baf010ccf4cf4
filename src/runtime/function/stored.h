// Plans that outlive the process: what a compilation looks for, and what it leaves.
#pragma once

#include <optional>

#include "runtime/function/compile.h"
#include "runtime/store/entry.h"
#include "runtime/store/stored_plan.h"

namespace graft::runtime {

/// The entry of that program, with its machine and key alone. `program`: as lowered, before tuning.
/// Nothing where the plan cannot be kept: the program uses what only this process has.
std::optional<StoredEntry> entry_for(const ir::Program& program, const record::Trace& trace,
                                     const CompileSettings& settings);

/// What schedule() and generate() made, as its parts `about`, `proof` (none yet) and `plan`.
void fill(StoredEntry& entry, const CompileSettings& settings, const Scheduled& scheduled,
          const std::string& gives_up, const Autotuned& autotuned, KernelCode code);

/// As generate(), for a schedule of any size, whose kernels' code is kept for other processes and
/// taken from them.
Generated generate_kept(const ir::Schedule& schedule, const ir::Target& target,
                        const std::string& name);

/// The program of an entry of this machine, as text.
std::string program_text(const StoredEntry& entry);

}  // namespace graft::runtime
