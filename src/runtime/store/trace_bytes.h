// A trace as bytes: what a kept plan is looked for by, before anything is lowered.
#pragma once

#include "record/trace.h"
#include "runtime/store/bytes.h"

namespace graft::runtime {

/// All that a plan depends on: all of it but the captured tensors themselves, what is noted of
/// leaves and their gradients, and the participants.
/// Equal bytes, equal traces in that. Where a constant has no form outside of this process,
/// `writer` is not complete afterwards.
void write(const record::Trace& trace, ByteWriter& writer);

}  // namespace graft::runtime
