// Mode::MaxAutotune: matrix products with captured weights, as loops that read these in an order
// that is folded (passes/fold.h), against ATen's routines.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ops/lower.h"
#include "runtime/function/compile.h"

namespace graft::runtime {

/// May a product's captured weight be held in the order in which a kernel reads it?
bool may_hold_weights(const CompileSettings& settings);

/// The products that are faster as loops, by record, with the times that say so. `choices`: which
/// of Lowered::choices are taken where they are not (Tuning::choices). Each shape is timed once in
/// a process (and for each size of what else the program reads), on data of its own, for about
/// 0.3 s. Thread-safe.
std::map<int, std::string> faster_as_loops(const ops::Lowered& lowered,
                                           const std::vector<std::string>& choices,
                                           const CompileSettings& settings);

}  // namespace graft::runtime
