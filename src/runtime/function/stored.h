// Plans that outlive the process: what a compilation looks for, and what it leaves.
#pragma once

#include <optional>

#include "runtime/function/compile.h"
#include "runtime/store/entry.h"
#include "runtime/store/stored_plan.h"

namespace graft::runtime {

/// The entry of that trace, with its machine and key alone, for any number of threads. Nothing
/// where the plan cannot be kept: the trace has what only this process has.
std::optional<StoredEntry> entry_for(const record::Trace& trace, const CompileSettings& settings);
/// … for so many threads: of plans that were timed or compared with them.
void add_threads(StoredEntry& entry, int threads);

/// What schedule() and generate() made, as its parts `about`, `proof` (none yet) and `plan`.
void fill(StoredEntry& entry, const CompileSettings& settings, const Scheduled& scheduled,
          const std::string& gives_up, const Autotuned& autotuned, KernelCode code);

/// As generate(), for a schedule of any size, whose kernels' code is kept for other processes and
/// taken from them.
Generated generate_kept(const ir::Schedule& schedule, const ir::Target& target,
                        const std::string& name);

/// The schedule of an entry of this machine, as text; a region's backward behind it.
std::string schedule_text(const StoredEntry& entry);

}  // namespace graft::runtime
