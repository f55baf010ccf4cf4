// What must hold of a schedule as a whole; of one kernel or program: kernel.h, program.h.
#pragma once

#include <string>

#include "ir/kernel.h"

namespace graft::ir {

/// Empty when the schedule is well-formed; otherwise what is wrong and in which step. Runs between
/// schedule passes. Checked are
///   - every kernel for itself, and that whatever steps and results name exists;
///   - scratch: inside the kernel's block, at multiples of 64 bytes, no two of them at one place,
///     of temporaries that no other step touches;
///   - the arena, once memory is planned (`arena_offset` is no longer empty): every temporary that
///     a step touches in memory lies in it, at a multiple of 64 bytes, and none where another one
///     lies that lives at the same time, from the first to the last step that touches it;
///   - what takes another's place: a block of its own that begins in the step where that one ends;
///   - that a temporary is written before it is read;
///   - extern calls' tensors and results lie within their storages, and no result in memory that
///     goes with the run.
std::string verify(const Schedule& schedule);

}  // namespace graft::ir
