// A function on tensors through the recorder and the lowering, compared with eager on the same
// data.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "ops/lower.h"

namespace graft::test {

using Tensors = std::vector<at::Tensor>;
using Function = std::function<Tensors(Tensors&)>;

/// Whole numbers around 0, in order, in a new contiguous tensor.
at::Tensor grid(const std::vector<int64_t>& sizes, at::ScalarType type = at::kFloat);

/// Copies of the tensors with the same layouts and the same overlaps.
Tensors clone_all(const Tensors& tensors);

/// Records `fn` on copies of `args`, and lowers what was seen.
struct LoweredRun {
  record::Trace trace;
  ops::Lowered lowered;
};
LoweredRun lower_run(const Function& fn, const Tensors& args, ops::LowerSettings settings = {});
/// "fused", "view" or "extern: why" of the operator of that name; empty when it was not recorded.
std::string fate(const ops::Lowered& lowered, const std::string& name);

/// How far a result is from one of a run in double: compared element by element, where those are
/// finite.
struct Deviation {
  double most = 0, sum = 0;
  /// One of them is finite where the other is not, or NaN where the other is not.
  bool odd = false;
};
Deviation deviation_of(const at::Tensor& actual, const at::Tensor& reference);

/// Checks that the lowered function, interpreted on fresh copies of `args`, gives eager's results
/// and leaves eager's values in the arguments: bitwise when the lowering says so, otherwise no
/// further from a run in double than eager's. Every operator must be fused (or a view), unless
/// `fates` says that one is allowed to stay extern.
enum class Fates { AllFused, AnyExtern };
void expect_as_eager(const Function& fn, const Tensors& args, Fates fates = Fates::AllFused);

}  // namespace graft::test
