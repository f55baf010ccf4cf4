// What tells whether a difference is the rounding of sums (runtime/proof/shadow.h), compiled.
#pragma once

#include "runtime/function/compile.h"
#include "runtime/store/stored_plan.h"

namespace graft::runtime {

/// Never throws: empty when they cannot be built. Of a region: those of its forward, or with
/// `backward` those of its backward. `kept` gets them for other processes.
Scales compile_scales(const record::Trace& trace, const CompileSettings& settings,
                      const Region* backward, StoredScales& kept) noexcept;

/// Those that another process kept. Throws what Plan throws.
Scales load_scales(const StoredScales& kept, const CompileSettings& settings);

}  // namespace graft::runtime
