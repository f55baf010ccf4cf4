// What work takes on this machine, measured once and kept.
#pragma once

#include <optional>
#include <string>

#include "ir/target.h"

namespace graft::runtime {

/// The cost model's numbers for this machine. The first process that compiles on an idle machine
/// measures them on two threads (0.2 s), rounds them as rounded() says, and writes them into a file
/// of cache_path(); later ones read it. Where the machine is busy, or no file can be written, they
/// are the assumed ones: all processes are to choose the same schedules. `cpu`: ir::Target::cpu.
/// Thread-safe; constant for the process.
ir::Times machine_times(const std::string& cpu);

// --- for tests ---

/// What plain loops take per instruction, per byte of memory, per line of far rows against near
/// ones, for memory that they do not ask for ahead against what they do, per operation of
/// multiply-adds in registers and of ATen's matrix products; nothing else is set. Nothing where
/// other work takes the cores: its use of memory and caches would be measured.
std::optional<ir::Times> measure_times();
/// The assumed times by as much more or less as the measured ones are against those of the machine
/// that the assumed ones were fitted on: by a power of 2, 8 at most (streams: of 1.2), so that
/// noise chooses no schedules.
ir::Times rounded(const ir::Times& measured);
std::string text_of(const ir::Times& times, const std::string& cpu);
/// Nothing where the text is of another processor, of another version, or damaged.
std::optional<ir::Times> times_of(const std::string& text, const std::string& cpu);

}  // namespace graft::runtime
