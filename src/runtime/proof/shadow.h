// The proof of a plan: eager runs on the real arguments, then the plan on copies of what eager
// changed, and the results are compared.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graft/detail/core.h"
#include "runtime/plan/plan.h"
#include "runtime/proof/compare.h"

namespace graft::runtime {

class SavedGenerators;

struct Shadow {
  enum class Outcome : uint8_t {
    Equal,
    Different,  ///< `what` says where, with both values
    GivenUp,    ///< the plan gave up though eager raised no error: nothing is proven
  } outcome = Outcome::Equal;
  bool bitwise = true;
  /// Equal: eager's is beyond the tolerance somewhere, where the reference in fp64 decided.
  bool by_reference = false;
  /// Different: only by what may be the rounding of sums.
  bool maybe_rounding = true;
  double max_abs = 0;
  double eager_us = 0, compiled_us = 0;  ///< of this one run, eager's before the plan's
  std::string what;
  enum class Cause : uint8_t {
    Unknown,
    Function,                ///< it did something else than when it was recorded
  } cause = Cause::Unknown;  ///< of a difference
  /// Different: eager changed a tensor in place that the plan leaves alone. A plan that checks
  /// values may have met eager's.
  bool wrote_more = false;
  /// Of a plan that `checks` values: eager changed what its checks read after it.
  bool took_other_way(bool checks) const {
    return checks && outcome == Outcome::Different && wrote_more;
  }
  /// Another thread drew random numbers meanwhile: a difference proves nothing.
  bool random_disturbed = false;
  std::vector<at::Tensor> results = {};  ///< the plan's
};

/// What tells whether a difference is the rounding of sums. Empty unless one was found.
struct Scales {
  /// Calls each operator as it was recorded: eager's bits, if eager did again what was recorded.
  std::unique_ptr<Plan> replay;
  /// The plan with its sums disturbed in several ways, first not at all (passes/disturb.h).
  std::vector<std::unique_ptr<Plan>> disturbed;
  /// As `replay`, with the approximated operators called on doubles (ops/replay.h): who is right
  /// where the disturbance does not explain a difference. Null where it cannot be made.
  std::unique_ptr<Plan> reference;
};

/// Runs both; `call` holds eager's result afterwards. What eager throws passes through; nothing is
/// proven then. `forwards`, of a region's backward: where generators were before its forward.
Shadow run_shadow(const Plan& plan, const Tolerance& tolerance, detail::CallBase& call,
                  const at::Tensor* captured, std::span<const uint64_t> constants,
                  const Scales& scales = {}, SavedGenerators* forwards = nullptr);

}  // namespace graft::runtime
